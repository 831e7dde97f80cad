"""Frames between the JVM and Python: many records in one byte string, as columns and then bytes.

Decides: which bytes are a frame.  Must not know: Flink, Kafka, what is in a key, header or value.
The other side is deploy/bridge (Frames.java); a change here without one there gives rows of one
record to another.  All numbers are little endian; a length of -1 is a null key or value.

    record  ts i64, partition i32, offset i64, key, headers, value i32 (lengths); bytes
    batch   "TMB1", n i32, total i32, partition i32, first arrival ms i64, watermark ms i64;
            ts i64[n], offset i64[n], key i32[n], headers i32[n], value i32[n], late u8[n];
            zeros to a multiple of 8; key, headers, value of row after row
    out     "TMO1", n i32, total i32, 0 i32; ts i64[n], key i32[n], headers i32[n], value i32[n];
            zeros to a multiple of 8; key, headers, value of row after row
    headers count u16, then for each: name length u16, name utf-8, value length i32, value
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidemill.errors import ContractError

NO_WATERMARK: Final = -(2**63)
NO_TIMESTAMP: Final = -1
NULL: Final = -1
EMPTY_HEADERS: Final = b"\0\0"
DROPPED_HEADERS: Final = "x-bridge.dropped-headers"
"""Stands in for headers that the bridge can't carry (too many, or a name too long)."""
MAX_HEADERS: Final = 0xFFFF
MAX_NAME_BYTES: Final = 0xFFFF
MAX_FRAME_BYTES: Final = 2**31 - 1

_BATCH: Final = Struct("<4siiiqq")
_BATCH_MAGIC: Final = b"TMB1"
_BATCH_ROW_BYTES: Final = 29
_OUT: Final = Struct("<4siii")
_OUT_MAGIC: Final = b"TMO1"
_OUT_ROW_BYTES: Final = 20
_RECORD: Final = Struct("<qiqiii")
_U16: Final = Struct("<H")
_I32: Final = Struct("<i")


class FrameError(ContractError):
    """Bytes are not the frame that they should be: the bridge and Python are of two releases."""

    def __init__(self, frame: str, expected: str, actual: str) -> None:
        super().__init__(
            f"{frame}: expected {expected}, got {actual}; deploy the bridge jar and the Python code"
            " of one release together and restart the TaskManagers"
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One Kafka record of a batch frame; ``headers`` is still encoded, ``ts`` is epoch ms."""

    ts: int
    offset: int
    key: bytes | None
    headers: bytes
    value: bytes | None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record of a record frame; ``headers`` is still encoded, ``ts`` is epoch ms."""

    ts: int
    partition: int
    offset: int
    key: bytes | None
    headers: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class OutRow:
    """One record to be written to Kafka; ``ts`` is epoch ms or NO_TIMESTAMP."""

    ts: int
    key: bytes | None
    headers: bytes
    value: bytes | None


@dataclass(slots=True)
class BatchFrame:
    """Rows of one partition in order of arrival, as columns; the bytes of row 0 are at ``start``.

    ``late`` has a 1 for each row behind ``watermark_ms``, the watermark as it stood on arrival.
    ``first_arrival_ms`` is wall clock, all times are epoch ms.
    """

    partition: int
    first_arrival_ms: int
    watermark_ms: int
    ts: list[int]
    offsets: list[int]
    key_lens: list[int]
    hdr_lens: list[int]
    val_lens: list[int]
    late: bytes
    data: bytes
    start: int

    def __len__(self) -> int:
        return len(self.ts)

    @classmethod
    def decode(cls, buf: bytes) -> BatchFrame:
        """Read a frame of the packer.  Raises FrameError on any byte too few, many or foreign."""
        n, (partition, first_arrival_ms, watermark_ms) = _read_head(
            buf, _BATCH, _BATCH_MAGIC, _BATCH_ROW_BYTES
        )
        at = _BATCH.size
        longs = np.frombuffer(buf, "<i8", 2 * n, at).tolist()
        at += 16 * n
        lengths = np.frombuffer(buf, "<i4", 3 * n, at)
        at += 12 * n
        late = buf[at : at + n]
        start = _padded(at + n)
        _check_lengths(lengths, n, start, len(buf), _BATCH_MAGIC)
        lens = lengths.tolist()
        return cls(
            partition,
            first_arrival_ms,
            watermark_ms,
            longs[:n],
            longs[n:],
            lens[:n],
            lens[n : 2 * n],
            lens[2 * n :],
            late,
            buf,
            start,
        )

    def rows(self) -> Iterator[Row]:
        """The rows one by one: convenient, and slower than walking the columns."""
        data, at = self.data, self.start
        columns = zip(self.key_lens, self.hdr_lens, self.val_lens, strict=True)
        for row, lens in enumerate(columns):
            key, headers, value, at = _cut(data, at, *lens)
            yield Row(self.ts[row], self.offsets[row], key, headers, value, bool(self.late[row]))


def encode_batch(
    partition: int,
    rows: Sequence[Row],
    first_arrival_ms: int = 0,
    watermark_ms: int = NO_WATERMARK,
) -> bytes:
    """What the packer makes of ``rows``; for tests and replays without a JVM."""
    n = len(rows)
    columns = b"".join(
        (
            np.array([row.ts for row in rows], "<i8").tobytes(),
            np.array([row.offset for row in rows], "<i8").tobytes(),
            np.array([_length(row.key) for row in rows], "<i4").tobytes(),
            np.array([len(row.headers) for row in rows], "<i4").tobytes(),
            np.array([_length(row.value) for row in rows], "<i4").tobytes(),
            bytes(row.late for row in rows),
        )
    )
    blobs = b"".join(blob for row in rows for blob in (row.key, row.headers, row.value) if blob)
    total = _padded(_BATCH.size + len(columns)) + len(blobs)
    head = _BATCH.pack(_BATCH_MAGIC, n, total, partition, first_arrival_ms, watermark_ms)
    return _joined(head + columns, blobs)


def encode_out(
    ts: Sequence[int],
    key_lens: Sequence[int],
    hdr_lens: Sequence[int],
    val_lens: Sequence[int],
    blobs: Sequence[bytes],
) -> bytes:
    """A frame of records to be written to Kafka, one entry of each column a record.

    ``blobs`` are key, headers and value of record after record; nulls (length -1) are left out or
    empty.  Raises FrameError if the lengths do not add up: Kafka would get mixed-up records.
    """
    n = len(ts)
    if not n == len(key_lens) == len(hdr_lens) == len(val_lens):
        raise FrameError(
            "out frame TMO1",
            f"{n} lengths in each column",
            f"{len(key_lens)}, {len(hdr_lens)} and {len(val_lens)}",
        )
    lengths = np.array((key_lens, hdr_lens, val_lens), "<i4").reshape(-1)
    rows = b"".join(blobs)
    start = _padded(_OUT.size + _OUT_ROW_BYTES * n)
    total = start + len(rows)
    if total > MAX_FRAME_BYTES:
        raise FrameError("out frame TMO1", f"at most {MAX_FRAME_BYTES} bytes", f"{total} bytes")
    _check_lengths(lengths, n, start, total, _OUT_MAGIC)
    head = _OUT.pack(_OUT_MAGIC, n, total, 0)
    return _joined(head + np.array(ts, "<i8").tobytes() + lengths.tobytes(), rows)


def decode_out(buf: bytes) -> list[OutRow]:
    """The records of an out frame.  Raises FrameError."""
    n, _ = _read_head(buf, _OUT, _OUT_MAGIC, _OUT_ROW_BYTES)
    ts = np.frombuffer(buf, "<i8", n, _OUT.size).tolist()
    lengths = np.frombuffer(buf, "<i4", 3 * n, _OUT.size + 8 * n)
    at = _padded(_OUT.size + _OUT_ROW_BYTES * n)
    _check_lengths(lengths, n, at, len(buf), _OUT_MAGIC)
    rows = []
    for time_ms, lens in zip(ts, lengths.reshape(3, n).T.tolist(), strict=True):
        key, headers, value, at = _cut(buf, at, *lens)
        rows.append(OutRow(time_ms, key, headers, value))
    return rows


def decode_record(buf: bytes) -> Record:
    """The record of a record frame, as the bridge's deserializer makes it.  Raises FrameError."""
    if len(buf) < _RECORD.size:
        raise FrameError("record frame", f"{_RECORD.size} bytes or more", f"{len(buf)} bytes")
    ts, partition, offset, key_len, hdr_len, val_len = _RECORD.unpack_from(buf)
    lens = (key_len, hdr_len, val_len)
    end = _RECORD.size + sum(max(length, 0) for length in lens)
    if min(lens) < NULL or hdr_len < 0 or end != len(buf):
        raise FrameError("record frame", f"{end} bytes for lengths {lens}", f"{len(buf)} bytes")
    key, headers, value, _ = _cut(buf, _RECORD.size, *lens)
    return Record(ts, partition, offset, key, headers, value)


def encode_record(record: Record) -> bytes:
    """What the bridge's deserializer makes of a Kafka record; for tests without a JVM."""
    lens = (_length(record.key), len(record.headers), _length(record.value))
    head = _RECORD.pack(record.ts, record.partition, record.offset, *lens)
    return b"".join((head, record.key or b"", record.headers, record.value or b""))


def encode_header(name: str, value: bytes | None) -> bytes:
    """One header, without a count: what ``append_headers`` takes.  Raises FrameError."""
    raw = name.encode()
    if len(raw) > MAX_NAME_BYTES:
        raise FrameError("header name", f"at most {MAX_NAME_BYTES} bytes", f"{len(raw)} bytes")
    return b"".join((_U16.pack(len(raw)), raw, _I32.pack(_length(value)), value or b""))


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The blob of a record's headers in their order, duplicates kept.  Raises FrameError."""
    return append_headers(
        EMPTY_HEADERS, b"".join(encode_header(*header) for header in headers), len(headers)
    )


def append_headers(blob: bytes, extra_encoded: bytes, extra_count: int) -> bytes:
    """``blob`` with ``extra_count`` more headers at its end, each made by ``encode_header``."""
    if len(blob) < _U16.size:
        raise _headers_error(blob, "2 bytes or more")
    count = _U16.unpack_from(blob)[0] + extra_count
    if count > MAX_HEADERS:
        raise _headers_error(blob, f"at most {MAX_HEADERS} headers, not {count}")
    return b"".join((_U16.pack(count), blob[_U16.size :], extra_encoded))


def decode_headers(blob: bytes) -> list[tuple[str, bytes | None]]:
    """Names and values in their order, duplicates kept.  Raises FrameError."""
    if blob == EMPTY_HEADERS:
        return []
    size = len(blob)
    if size < _U16.size:
        raise _headers_error(blob, "2 bytes or more")
    headers: list[tuple[str, bytes | None]] = []
    at = _U16.size
    for _ in range(_U16.unpack_from(blob)[0]):
        if at + _U16.size > size:
            raise _headers_error(blob, "a name length", at)
        end = at + _U16.size + _U16.unpack_from(blob, at)[0]
        if end + _I32.size > size:
            raise _headers_error(blob, "a name and a value length", at)
        name, length = blob[at + _U16.size : end], _I32.unpack_from(blob, end)[0]
        at = end + _I32.size + max(length, 0)
        if length < NULL or at > size:
            raise _headers_error(blob, f"a value length within the blob, not {length}", end)
        headers.append((_name(name), None if length < 0 else blob[end + _I32.size : at]))
    if at != size:
        raise _headers_error(blob, "no byte more", at)
    return headers


def _name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FrameError("header name", "utf-8", repr(raw[:80])) from error


def _headers_error(blob: bytes, expected: str, at: int = 0) -> FrameError:
    return FrameError(f"headers of {len(blob)} bytes", expected, f"byte {at}")


def _read_head(
    buf: bytes, head: Struct, magic: bytes, row_bytes: int
) -> tuple[int, tuple[int, ...]]:
    """Number of rows and the rest of the head, once the magic and the sizes fit."""
    name = f"frame {magic.decode()}"
    if len(buf) < head.size:
        raise FrameError(name, f"{head.size} bytes or more", f"{len(buf)} bytes")
    found, n, total, *rest = head.unpack_from(buf)
    if found != magic:
        raise FrameError(name, f"magic {magic!r}", f"{found!r} in {len(buf)} bytes")
    if n < 0 or total != len(buf) or _padded(head.size + row_bytes * n) > total:
        raise FrameError(name, f"{total} bytes that hold {n} rows", f"{len(buf)} bytes")
    return n, tuple(rest)


def _check_lengths(
    lengths: NDArray[np.int32], n: int, start: int, total: int, magic: bytes
) -> None:
    """``lengths`` are the key, header and value columns; their rows must end at ``total``."""
    if n == 0:
        end = start
    else:
        headers = lengths[n : 2 * n]
        end = start + int(np.maximum(lengths, 0).sum(dtype=np.int64))
        if lengths.min() < NULL or headers.min() < 0:
            bad = min(int(lengths.min()), int(headers.min()))
            raise FrameError(f"frame {magic.decode()}", "lengths of -1 or more", str(bad))
    if end != total:
        raise FrameError(f"frame {magic.decode()}", f"rows that end at byte {total}", str(end))


def _cut(
    data: bytes, at: int, key_len: int, hdr_len: int, val_len: int
) -> tuple[bytes | None, bytes, bytes | None, int]:
    """Key, headers and value of the row at ``at``, and where the next row begins."""
    key_end = at + max(key_len, 0)
    headers_end = key_end + hdr_len
    end = headers_end + max(val_len, 0)
    key = data[at:key_end] if key_len >= 0 else None
    value = data[headers_end:end] if val_len >= 0 else None
    return key, data[key_end:headers_end], value, end


def _joined(columns: bytes, rows: bytes) -> bytes:
    return b"".join((columns, bytes(_padded(len(columns)) - len(columns)), rows))


def _padded(size: int) -> int:
    return (size + 7) & ~7


def _length(blob: bytes | None) -> int:
    return NULL if blob is None else len(blob)
