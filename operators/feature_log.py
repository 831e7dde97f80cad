"""The feature log's message: what was served to the model, packed, one Kafka message a frame.

This is the seam between scoring and drift.  Little endian:

    0  4s  magic "TMF1"         4  u16 version (1)    6  u16 features a row
    8  u32 rows                12  u32 flags (bit 0: a served block follows the raw one)
   16  i64 control version     24  u32 partition     28  u16 schema id bytes   30  u16 0
   32  i64 event ms [rows], u16 task id bytes [rows], float32 raw [rows, features],
       float32 served [rows, features] (only with bit 0: a feature was frozen), schema id, task ids
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from operators.records import LaneFrame

MAGIC = b"TMF1"
VERSION = 1
_HEADER = Struct("<4sHHIIqIHH")
_SERVED_FOLLOWS = 1


class FeatureLogError(ValueError):
    """The bytes are no feature-log message of this version."""


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """Decoded message: ``raw`` and ``served`` are float32 [rows, features], equal unless frozen."""

    partition: int
    control_version: int
    schema_id: str
    event_ms: NDArray[np.int64]
    tasks: list[str]
    raw: NDArray[np.float32]
    served: NDArray[np.float32]


def encode_features(
    frame: LaneFrame,
    rows: Sequence[int],
    feature_count: int,
    schema_id: str,
    control_version: int,
    served: NDArray[np.float32] | None = None,
) -> bytes:
    """Pack ``rows`` of a lane frame; ``served`` (float32 [len(rows), features]) if it differs."""
    tasks = [frame.tasks[row].encode() for row in rows]
    events = [frame.event_ms[row] for row in rows]
    schema = schema_id.encode()
    if len(rows) == len(frame.tasks):
        raw = frame.block
    else:
        block = np.frombuffer(frame.block, np.float32).reshape(-1, feature_count)
        raw = block[list(rows)].tobytes()
    flags = 0 if served is None else _SERVED_FOLLOWS
    return b"".join(
        (
            _HEADER.pack(
                MAGIC,
                VERSION,
                feature_count,
                len(rows),
                flags,
                control_version,
                frame.partition,
                len(schema),
                0,
            ),
            np.array(events, "<i8").tobytes(),
            np.array([len(task) for task in tasks], "<u2").tobytes(),
            raw,
            b"" if served is None else served.astype("<f4").tobytes(),
            schema,
            *tasks,
        )
    )


def decode_features(data: bytes) -> FeatureRows:
    """Read a feature-log message.  Raises FeatureLogError on foreign or truncated bytes."""
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise FeatureLogError(
            f"expected magic {MAGIC!r} and {_HEADER.size} bytes, got {data[:4]!r}"
        )
    _, version, width, rows, flags, control, partition, schema_bytes, _ = _HEADER.unpack_from(data)
    if version != VERSION:
        raise FeatureLogError(f"feature log version {version} is not {VERSION}; upgrade the reader")
    blocks = 2 if flags & _SERVED_FOLLOWS else 1
    fixed = _HEADER.size + 10 * rows + 4 * rows * width * blocks + schema_bytes
    if len(data) < fixed:
        raise FeatureLogError(f"{len(data)} bytes, but {rows} rows need at least {fixed}")
    at = _HEADER.size
    events = np.frombuffer(data, "<i8", rows, at)
    lengths = np.frombuffer(data, "<u2", rows, at + 8 * rows)
    if len(data) != fixed + int(lengths.sum()):
        raise FeatureLogError(f"{len(data)} bytes, expected {fixed + int(lengths.sum())}")
    at += 10 * rows
    raw = np.frombuffer(data, "<f4", rows * width, at).reshape(rows, width)
    served = raw
    if blocks == 2:
        served = np.frombuffer(data, "<f4", rows * width, at + 4 * rows * width)
        served = served.reshape(rows, width)
    ends = np.cumsum(lengths, dtype=np.int64) + fixed
    tasks = [
        data[end - n : end].decode() for end, n in zip(ends.tolist(), lengths.tolist(), strict=True)
    ]
    schema_id = data[fixed - schema_bytes : fixed].decode()
    return FeatureRows(partition, control, schema_id, events, tasks, raw, served)
