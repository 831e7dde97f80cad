"""Decoding batch frames on one thread: 11 numbers and 2 categories an event, 256 rows a frame.

Plain events with all headers; the same without headers (the task is derived); with an ISO time
in the event; with one bad row in a hundred; and what orjson alone takes for the same bytes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import orjson

from bench.report import Report
from models.spec import FeatureSpec, ModelSpec, OutputSpec
from operators.decode import Decoder
from operators.frames import BatchFrame, Row, encode_batch, encode_headers
from operators.mapping import EventMapping
from operators.row_decode import DecodePolicy
from operators.schema import FeatureSchema
from tidemill.settings import EventSettings

ROWS = 256
TURNS = 15
FRAMES_A_TURN = 40
TS_MS = 1_767_225_600_000
TIME = "2026-01-01T00:00:00.000Z"  # TS_MS
NUMBERS = tuple(FeatureSpec(f"feature_{i}", low=-1e3, high=1e3, required=True) for i in range(11))
CATEGORIES = (
    FeatureSpec("carrier", dtype="category", categories=("UA", "AA", "DL"), unseen=True),
    FeatureSpec("origin", dtype="category", categories=("JFK", "LGA", "EWR"), required=True),
)
SCHEMA = FeatureSchema.from_spec(ModelSpec("m", "1", NUMBERS + CATEGORIES, (OutputSpec("y"),)))


def run(report: Report) -> None:
    """Goal: decode.plain <= 8 us a row."""
    report.note(f"{ROWS} rows a frame, best of {TURNS} turns of {FRAMES_A_TURN} frames")
    plain = _frame(headers=True)
    values = [row.value or b"" for row in plain.rows()]
    report.value("orjson", _us_a_row(lambda: [orjson.loads(value) for value in values]), "us/row")
    for name, frame, event_time in (
        ("plain", plain, ""),
        ("no_headers", _frame(headers=False), ""),
        ("iso_time", _frame(headers=True, event_time=True), "/event_time"),
        ("one_percent_bad", _frame(headers=True, bad_every=100), ""),
    ):
        decoder = _decoder(event_time)
        decoded = decoder.decode(frame)
        assert decoded.lane_frame is not None
        assert len(decoded.lane_frame) == ROWS
        report.value(name, _us_a_row(partial(decoder.decode, frame)), "us/row")


def _us_a_row(call: Callable[[], object]) -> float:
    spans = []
    for _ in range(TURNS):
        started_ns = time.perf_counter_ns()
        for _ in range(FRAMES_A_TURN):
            call()
        spans.append((time.perf_counter_ns() - started_ns) / 1000 / FRAMES_A_TURN / ROWS)
    return min(spans)  # the work itself, without what a busy machine adds


def _decoder(event_time: str) -> Decoder:
    mapping = EventMapping.from_settings(EventSettings(event_time=event_time), SCHEMA)
    return Decoder(SCHEMA, mapping, DecodePolicy(), "orders", "group")


def _frame(headers: bool, event_time: bool = False, bad_every: int = 0) -> BatchFrame:
    chance = random.Random(1)
    rows = []
    for i in range(ROWS):
        pairs: list[tuple[str, bytes | None]] = [
            ("traceparent", b"00-%032x-%016x-01" % (chance.getrandbits(128), i)),
            ("task-id", b"task-%031d" % i),
            ("reply-to", b"caller-1"),
            ("deadline-ms", b"%d" % (TS_MS + 500)),
        ]
        features: dict[str, object] = {f.name: round(chance.uniform(-99, 99), 3) for f in NUMBERS}
        features |= {"carrier": chance.choice(["UA", "AA"]), "origin": "JFK"}
        if bad_every and i % bad_every == 0:
            features["feature_3"] = 1e6
        event = {"order_id": f"o-{i:06d}", "event_id": f"e-{i:06d}", "features": features}
        if event_time:
            event["event_time"] = TIME
        blob = encode_headers(pairs if headers else [])
        rows.append(Row(TS_MS + i, i, b"order-%06d" % i, blob, orjson.dumps(event)))
    return BatchFrame.decode(encode_batch(0, rows, TS_MS + 1000))
