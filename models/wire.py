"""Frames between a lane's agent and a worker: a 48-byte header, then the payload, little endian.

Decides: the bytes of the five kinds, and which bytes are refused.
Must not know: sockets, torch, numpy.

    HELLO  worker -> agent   JSON: what the worker serves (sent once, first)
    SCORE  agent -> worker   float32 block rows x row_bytes, then u32 row ids
    REPLY  worker -> agent   u8 status per row (padded to 4), float32 rows x out_dim, u32 row ids
    FAIL   worker -> agent   JSON {reason, message}: no row of that batch was scored
    DRAIN  worker -> agent   nothing: send no new batch; what is under way will be answered
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from struct import Struct
from typing import Any

from models.messages import (
    PROTOCOL,
    Drain,
    Fail,
    Hello,
    Kind,
    Message,
    Reply,
    RowStatus,
    Score,
    WireError,
)

__all__ = [
    "PROTOCOL",
    "Decoder",
    "Drain",
    "Fail",
    "Hello",
    "Kind",
    "Message",
    "Reply",
    "RowStatus",
    "Score",
    "WireError",
    "encode_drain",
    "encode_fail",
    "encode_hello",
    "encode_reply",
    "encode_score",
    "reply_header",
    "score_header",
]

MAGIC = b"TMW1"
HEADER = Struct("<4sBBHQIIqIIII")
HEADER_BYTES = HEADER.size
_Header = tuple[Any, ...]
_PAYLOAD = 8  # index of payload_bytes in a header
_PADDING = (b"", b"\0", b"\0\0", b"\0\0\0")
_SCORE, _REPLY = int(Kind.SCORE), int(Kind.REPLY)  # an IntEnum costs at each comparison
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024  # 256 rows x 100 features are 0.1 MB; more is a foreign peer
READ_BYTES = 64 * 1024  # a frame of usual size in one read, and small enough for malloc to reuse


def _frame(
    kind: Kind,
    payload: bytes = b"",
    *,
    batch_id: int = 0,
    rows: int = 0,
) -> bytes:
    return HEADER.pack(MAGIC, kind, 0, 0, batch_id, rows, 0, 0, len(payload), 0, 0, 0) + payload


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def encode_hello(hello: Hello) -> bytes:
    """HELLO as bytes."""
    return _frame(Kind.HELLO, _json(asdict(hello)))


def score_header(batch_id: int, rows: int, row_bytes: int, budget_ns: int) -> bytes:
    """Only the header of a SCORE, for a caller that sends block and row ids without joining them."""
    size = rows * (row_bytes + 4)
    return HEADER.pack(MAGIC, Kind.SCORE, 0, 0, batch_id, rows, row_bytes, budget_ns, size, 0, 0, 0)


def encode_score(
    batch_id: int,
    block: bytes | memoryview,
    rows: int,
    row_bytes: int,
    budget_ns: int,
    row_ids: bytes | memoryview,
) -> bytes:
    """SCORE as bytes. Raises WireError if block or ids don't have `rows` rows."""
    if len(block) != rows * row_bytes or len(row_ids) != 4 * rows:
        raise WireError(
            f"score: {rows} rows of {row_bytes} bytes need {rows * row_bytes} + {4 * rows} bytes,"
            f" not {len(block)} + {len(row_ids)}"
        )
    head = score_header(batch_id, rows, row_bytes, budget_ns)
    return b"".join((head, block, row_ids))


def reply_header(
    batch_id: int, rows: int, out_dim: int, service_us: int, queue_us: int, bucket: int
) -> bytes:
    """Only the header of a REPLY, for a sender that doesn't join the parts."""
    size = _padded(rows) + 4 * rows * out_dim + 4 * rows
    return HEADER.pack(
        MAGIC,
        _REPLY,
        0,
        out_dim,
        batch_id,
        rows,
        4 * out_dim,
        0,
        size,
        min(service_us, 0xFFFFFFFF),
        min(queue_us, 0xFFFFFFFF),
        bucket,
    )


def encode_reply(
    batch_id: int,
    status: bytes,
    outputs: bytes | memoryview,
    row_ids: bytes | memoryview,
    out_dim: int,
    *,
    service_us: int = 0,
    queue_us: int = 0,
    bucket: int = 0,
) -> bytes:
    """REPLY as bytes. Raises WireError if the parts don't have the same number of rows."""
    rows = len(status)
    if len(outputs) != 4 * rows * out_dim or len(row_ids) != 4 * rows:
        raise WireError(
            f"reply: {rows} rows of {out_dim} outputs need {4 * rows * out_dim} + {4 * rows} bytes,"
            f" not {len(outputs)} + {len(row_ids)}"
        )
    head = reply_header(batch_id, rows, out_dim, service_us, queue_us, bucket)
    return b"".join((head, status, _PADDING[-rows & 3], outputs, row_ids))


def encode_fail(batch_id: int, rows: int, reason: str, message: str) -> bytes:
    """FAIL as bytes."""
    body = _json({"reason": reason, "message": message[:2000]})
    return _frame(Kind.FAIL, body, batch_id=batch_id, rows=rows)


def encode_drain() -> bytes:
    """DRAIN as bytes."""
    return _frame(Kind.DRAIN)


class Decoder:
    """Bytes in, whole messages out; holds what is not yet whole.

    Views in the messages stay valid: they point into bytes that nobody changes.
    """

    def __init__(self, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        self._limit = max_payload_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._need = HEADER_BYTES

    @property
    def held_bytes(self) -> int:
        """Bytes of a message that is not whole yet; > 0 at EOF means that it was cut."""
        return self._held_bytes

    def feed(self, data: bytes) -> list[Message]:
        """All messages that are whole now. Raises WireError; the decoder is useless after that."""
        if self._held:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._need:
                return []
            data = b"".join(self._held)
            self._held.clear()
        self._held_bytes = 0
        messages: list[Message] = []
        view, at, end = memoryview(data), 0, len(data)
        self._need = HEADER_BYTES
        while end - at >= HEADER_BYTES:
            header: _Header = HEADER.unpack_from(data, at)
            self._check(header)
            size = HEADER_BYTES + header[_PAYLOAD]
            if end - at < size:
                self._need = size
                break
            messages.append(_message(header, view[at + HEADER_BYTES : at + size]))
            at += size
        if at < end:
            self._hold(data[at:])
        return messages

    def _hold(self, rest: bytes) -> None:
        if not MAGIC.startswith(rest[: len(MAGIC)]):
            raise WireError(f"expected magic {MAGIC!r}, got {rest[: len(MAGIC)]!r}")
        self._held.append(rest)
        self._held_bytes = len(rest)

    def _check(self, header: _Header) -> None:
        if header[0] != MAGIC:
            raise WireError(f"expected magic {MAGIC!r}, got {header[0]!r}")
        if header[_PAYLOAD] > self._limit:
            raise WireError(
                f"payload of {header[_PAYLOAD]} bytes is over the limit of {self._limit}"
            )


def _message(header: _Header, payload: memoryview) -> Message:
    _, kind, _, out_dim, batch_id, rows, row_bytes, budget, size, service, queue, bucket = header
    ids = size - 4 * rows
    if kind == _SCORE:
        if ids != rows * row_bytes or not rows:
            raise WireError(f"score of {rows} rows x {row_bytes} bytes has {size} payload bytes")
        return Score(batch_id, rows, row_bytes, budget, payload[:ids], payload[ids:])
    if kind == _REPLY:
        first = _padded(rows)
        if ids != first + 4 * rows * out_dim:
            raise WireError(f"reply of {rows} rows x {out_dim} outputs has {size} payload bytes")
        status, outputs = payload[:rows], payload[first:ids]
        return Reply(
            batch_id, rows, out_dim, service, queue, bucket, status, outputs, payload[ids:]
        )
    if kind == Kind.FAIL:
        body = _parse(payload)
        return Fail(batch_id, rows, str(body.get("reason", "")), str(body.get("message", "")))
    if kind == Kind.HELLO:
        return _hello(_parse(payload))
    if kind == Kind.DRAIN:
        return Drain()
    raise WireError(f"unknown kind {kind}; this protocol has {[int(k) for k in Kind]}")


def _parse(raw: memoryview) -> dict[str, Any]:
    try:
        body = json.loads(bytes(raw))
    except ValueError as error:
        raise WireError(f"payload is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise WireError("payload is no JSON object")
    return body


def _hello(body: dict[str, Any]) -> Hello:
    if body.get("protocol") != PROTOCOL:
        raise WireError(f"peer speaks protocol {body.get('protocol')!r}, not {PROTOCOL}")
    try:
        return Hello(
            model=body["model"],
            version=body["version"],
            features=list(body["features"]),
            outputs=list(body["outputs"]),
            buckets=[int(bucket) for bucket in body["buckets"]],
            service_us={int(bucket): int(us) for bucket, us in body["service_us"].items()},
            max_rows=int(body["max_rows"]),
            credits=int(body["credits"]),
            schema_id=str(body.get("schema_id", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"hello lacks or mistypes a field: {error!r}") from error


def _padded(rows: int) -> int:
    return (rows + 3) & ~3
