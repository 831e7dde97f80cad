"""Builders shared by the tests of decoding: a small model, frames of records, and what left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from models.spec import FeatureSpec, ModelSpec, OutputSpec
from operators.decode import DecodedFrame, Decoder
from operators.frames import (
    BatchFrame,
    Row,
    decode_headers,
    decode_out,
    encode_batch,
    encode_headers,
)
from operators.mapping import EventMapping
from operators.row_decode import DecodePolicy
from operators.schema import FeatureSchema
from tidemill.settings import EventSettings, FeaturePointer

TOPIC = "orders.order.created.v1"
GROUP = "tidemill-scoring"
NOW_MS = 1_767_225_600_100
TS_MS = 1_767_225_600_000
PLAIN_HEADERS: tuple[tuple[str, bytes | None], ...] = (("task-id", b"task-1"),)

FEATURES = (
    FeatureSpec("distance_km", low=0.0, high=500.0, required=True, unit="km"),
    FeatureSpec("stops", dtype="int", low=0.0, required=True),
    FeatureSpec("express", dtype="bool", default=0.0),
    FeatureSpec("city", dtype="category", categories=("berlin", "paris"), required=True),
    FeatureSpec("vehicle", dtype="category", categories=("bike", "car"), unseen=True),
    FeatureSpec("weight_kg", default=1.5),
)
GOOD: dict[str, Any] = {
    "distance_km": 12.5,
    "stops": 3,
    "express": True,
    "city": "paris",
    "vehicle": "bike",
    "weight_kg": 2,
}
GOOD_ROW = (12.5, 3.0, 1.0, 1.0, 0.0, 2.0)


def schema_of(features: Sequence[FeatureSpec] = FEATURES) -> FeatureSchema:
    """A schema, through a whole model spec."""
    return FeatureSchema.from_spec(ModelSpec("m", "1", tuple(features), (OutputSpec("eta_min"),)))


def decoder(
    features: Sequence[FeatureSpec] = FEATURES,
    policy: DecodePolicy | None = None,
    pointers: Mapping[str, FeaturePointer] | None = None,
    **event: str,
) -> Decoder:
    """A decoder; ``event`` are pointers of EventSettings."""
    schema = schema_of(features)
    settings = EventSettings(features=dict(pointers or {}), **event)
    mapping = EventMapping.from_settings(settings, schema)
    return Decoder(schema, mapping, policy or DecodePolicy(), TOPIC, GROUP)


def event(features: Mapping[str, Any] | None = None, **fields: Any) -> bytes:
    """The JSON of a good event, with changes."""
    doc = {"order_id": "o-1", "event_id": "e-1", "features": {**GOOD, **(features or {})}}
    return orjson.dumps({**doc, **fields})


def without(*names: str) -> bytes:
    """The JSON of an event that lacks features."""
    features = {name: value for name, value in GOOD.items() if name not in names}
    return orjson.dumps({"order_id": "o-1", "event_id": "e-1", "features": features})


@dataclass(frozen=True)
class Record:
    """A Kafka record as a producer sent it."""

    value: bytes | None = field(default_factory=event)
    key: bytes | None = b"order-1"
    headers: tuple[tuple[str, bytes | None], ...] = PLAIN_HEADERS
    ts_ms: int = TS_MS
    late: bool = False


def frame(*records: Record, watermark_ms: int = TS_MS + 5000) -> BatchFrame:
    """The batch frame that the bridge would hand over."""
    rows = [
        Row(r.ts_ms, 100 + i, r.key, encode_headers(list(r.headers)), r.value, r.late)
        for i, r in enumerate(records)
    ]
    return BatchFrame.decode(encode_batch(3, rows, NOW_MS, watermark_ms))


@dataclass(frozen=True)
class Left:
    """One record that left by a side output."""

    ts_ms: int
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    value: bytes | None

    @property
    def extra(self) -> dict[str, str]:
        """The `x-` headers as text."""
        return {name: (v or b"").decode() for name, v in self.headers if name.startswith("x-")}

    @property
    def original(self) -> list[tuple[str, bytes | None]]:
        """The headers that the producer sent."""
        return [pair for pair in self.headers if not pair[0].startswith("x-")]


def left(out: bytes | None) -> list[Left]:
    """The records of a side output."""
    if out is None:
        return []
    return [Left(r.ts, r.key, decode_headers(r.headers), r.value) for r in decode_out(out)]


def block_of(decoded: DecodedFrame, width: int = len(FEATURES)) -> list[list[float]]:
    """The float32 rows of a decoded frame."""
    assert decoded.lane_frame is not None
    block = np.frombuffer(decoded.lane_frame.block, "<f4").reshape(-1, width)
    return [[float(value) for value in row] for row in block]


def only_reason(decoded: DecodedFrame) -> str:
    """The reason of the single dead letter of a frame."""
    (letter,) = left(decoded.dead_out)
    assert decoded.counts == {letter.extra["x-dlq.reason"]: 1}
    return letter.extra["x-dlq.reason"]
