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

from operators.frame_layout import (
    NULL,
    FrameError,
    check_lengths,
    cut,
    frame_error,
    joined,
    length_of,
    padded,
    read_head,
)
from operators.header_codec import (
    DROPPED_HEADERS,
    EMPTY_HEADERS,
    append_headers,
    decode_headers,
    encode_headers,
)

__all__ = [
    "DROPPED_HEADERS",
    "EMPTY_HEADERS",
    "NO_TIMESTAMP",
    "NO_WATERMARK",
    "NULL",
    "BatchFrame",
    "FrameError",
    "OutRow",
    "Record",
    "Row",
    "append_headers",
    "decode_headers",
    "decode_out",
    "decode_record",
    "encode_batch",
    "encode_headers",
    "encode_out",
    "encode_record",
]

NO_WATERMARK: Final = -(2**63)
NO_TIMESTAMP: Final = -1
MAX_FRAME_BYTES: Final = 2**31 - 1

_BATCH: Final = Struct("<4siiiqq")
_BATCH_MAGIC: Final = b"TMB1"
_BATCH_ROW_BYTES: Final = 29
_OUT: Final = Struct("<4siii")
_OUT_MAGIC: Final = b"TMO1"
_OUT_ROW_BYTES: Final = 20
_RECORD: Final = Struct("<qiqiii")


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
        n, (partition, first_arrival_ms, watermark_ms) = read_head(
            buf, _BATCH, _BATCH_MAGIC, _BATCH_ROW_BYTES
        )
        at = _BATCH.size
        longs = np.frombuffer(buf, "<i8", 2 * n, at).tolist()
        at += 16 * n
        lengths = np.frombuffer(buf, "<i4", 3 * n, at)
        at += 12 * n
        late = buf[at : at + n]
        start = padded(at + n)
        check_lengths(lengths, n, start, len(buf), _BATCH_MAGIC)
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
            key, headers, value, at = cut(data, at, *lens)
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
            np.array([length_of(row.key) for row in rows], "<i4").tobytes(),
            np.array([len(row.headers) for row in rows], "<i4").tobytes(),
            np.array([length_of(row.value) for row in rows], "<i4").tobytes(),
            bytes(row.late for row in rows),
        )
    )
    blobs = b"".join(blob for row in rows for blob in (row.key, row.headers, row.value) if blob)
    total = padded(_BATCH.size + len(columns)) + len(blobs)
    head = _BATCH.pack(_BATCH_MAGIC, n, total, partition, first_arrival_ms, watermark_ms)
    return joined(head + columns, blobs)


def encode_out(
    ts: Sequence[int],
    key_lens: Sequence[int],
    hdr_lens: Sequence[int],
    val_lens: Sequence[int],
    blobs: Sequence[bytes],
    route: int = 0,
) -> bytes:
    """A frame of records to be written to Kafka, one entry of each column a record.

    ``route`` tells the job's sinks apart where an operator has one output for all: PyFlink does not
    route side outputs of a keyed broadcast function's timer.

    ``blobs`` are key, headers and value of record after record; nulls (length -1) are left out or
    empty.  Raises FrameError if the lengths do not add up: Kafka would get mixed-up records.
    """
    n = len(ts)
    if not n == len(key_lens) == len(hdr_lens) == len(val_lens):
        raise frame_error(
            "out frame TMO1",
            f"{n} lengths in each column",
            f"{len(key_lens)}, {len(hdr_lens)} and {len(val_lens)}",
        )
    lengths = np.array((key_lens, hdr_lens, val_lens), "<i4").reshape(-1)
    rows = b"".join(blobs)
    start = padded(_OUT.size + _OUT_ROW_BYTES * n)
    total = start + len(rows)
    if total > MAX_FRAME_BYTES:
        raise frame_error("out frame TMO1", f"at most {MAX_FRAME_BYTES} bytes", f"{total} bytes")
    check_lengths(lengths, n, start, total, _OUT_MAGIC)
    head = _OUT.pack(_OUT_MAGIC, n, total, route)
    return joined(head + np.array(ts, "<i8").tobytes() + lengths.tobytes(), rows)


def decode_out(buf: bytes) -> list[OutRow]:
    """The records of an out frame.  Raises FrameError."""
    n, _ = read_head(buf, _OUT, _OUT_MAGIC, _OUT_ROW_BYTES)
    ts = np.frombuffer(buf, "<i8", n, _OUT.size).tolist()
    lengths = np.frombuffer(buf, "<i4", 3 * n, _OUT.size + 8 * n)
    at = padded(_OUT.size + _OUT_ROW_BYTES * n)
    check_lengths(lengths, n, at, len(buf), _OUT_MAGIC)
    rows = []
    for time_ms, lens in zip(ts, lengths.reshape(3, n).T.tolist(), strict=True):
        key, headers, value, at = cut(buf, at, *lens)
        rows.append(OutRow(time_ms, key, headers, value))
    return rows


def decode_record(buf: bytes) -> Record:
    """The record of a record frame, as the bridge's deserializer makes it.  Raises FrameError."""
    if len(buf) < _RECORD.size:
        raise frame_error("record frame", f"{_RECORD.size} bytes or more", f"{len(buf)} bytes")
    ts, partition, offset, key_len, hdr_len, val_len = _RECORD.unpack_from(buf)
    lens = (key_len, hdr_len, val_len)
    end = _RECORD.size + sum(max(length, 0) for length in lens)
    if min(lens) < NULL or hdr_len < 0 or end != len(buf):
        raise frame_error("record frame", f"{end} bytes for lengths {lens}", f"{len(buf)} bytes")
    key, headers, value, _ = cut(buf, _RECORD.size, *lens)
    return Record(ts, partition, offset, key, headers, value)


def encode_record(record: Record) -> bytes:
    """What the bridge's deserializer makes of a Kafka record; for tests without a JVM."""
    lens = (length_of(record.key), len(record.headers), length_of(record.value))
    head = _RECORD.pack(record.ts, record.partition, record.offset, *lens)
    return b"".join((head, record.key or b"", record.headers, record.value or b""))
