"""Properties of decoding: strictness against a slow reference, and the fast loop against the slow one."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.spec import FeatureSpec
from operators.errors import RecordError
from operators.event_time import event_time_ms
from operators.mapping import EventMapping
from operators.row_decode import DecodePolicy, RawRow, RowDecoder
from operators.schema import FLOAT32_OVERFLOW
from operators.strict_json import loads_strict
from tests.decoding import (
    FEATURES,
    GOOD,
    NOW_MS,
    TOPIC,
    TS_MS,
    Record,
    decoder,
    frame,
    left,
    schema_of,
)
from tidemill.contracts import DeadLetterReason
from tidemill.settings import EventSettings, FeaturePointer

LIMIT = 1 << 20
KEYS = st.sampled_from(["a", "b", ":", "a:b", "", "\\", '"', "\u00e9", "[", "{"])
TEXTS = st.text(alphabet='ab:"\\{}[],\u00e9\U0001f600\n', max_size=4)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), TEXTS,
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip


class Pairs(list[tuple[str, Any]]):
    """An object as written: pairs, perhaps with a key twice."""


VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(KEYS, inner), max_size=4).map(Pairs),
    ),
    max_leaves=12,
)
DOCUMENTS = st.lists(st.tuples(KEYS, VALUES), max_size=4).map(Pairs)


def write(value: Any, escape: bool) -> str:
    """JSON text; with ``escape``, every letter and colon of a text is a \\u escape."""
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{write(k, escape)}:{write(v, escape)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write(v, escape) for v in value) + "]"
    if isinstance(value, str) and escape:
        units = value.encode("utf-16-be")
        return '"' + "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)) + '"'
    return json.dumps(value, ensure_ascii=escape)


def has_duplicate(value: Any) -> bool:
    if isinstance(value, Pairs):
        names = [key for key, _ in value]
        return len(set(names)) < len(names) or any(has_duplicate(v) for _, v in value)
    return isinstance(value, list) and any(has_duplicate(v) for v in value)


@given(DOCUMENTS, st.booleans(), st.sampled_from(["", " ", "\n"]))
@settings(max_examples=400)
def test_no_duplicate_passes_and_no_valid_document_is_refused(
    doc: Pairs, escape: bool, space: str
) -> None:
    raw = (space + write(doc, escape) + space).encode()
    if has_duplicate(doc):
        with pytest.raises(RecordError) as caught:
            loads_strict(raw, LIMIT)
        assert caught.value.reason is DeadLetterReason.DUPLICATE_KEY
    else:
        assert loads_strict(raw, LIMIT) == json.loads(raw)


@given(st.binary(max_size=60))
@settings(max_examples=400)
def test_any_bytes_are_an_object_or_have_a_reason(raw: bytes) -> None:
    check_outcome(raw)


def check_outcome(raw: bytes) -> None:
    try:
        doc = loads_strict(raw, LIMIT)
    except RecordError as error:
        reason: str | None = error.reason.value
    else:
        reason = None
        assert doc == json.loads(raw)
        assert isinstance(doc, dict)
    assert reason is None or reason in set(DeadLetterReason)


@given(DOCUMENTS, st.data())
def test_a_changed_byte_never_crashes(doc: Pairs, data: st.DataObject) -> None:
    raw = bytearray(write(doc, False).encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    check_outcome(bytes(raw))


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, 1.0, -0.0, 2**24, 2**24 + 1, 500, 500.0001, FLOAT32_OVERFLOW, 3.4e38]),
)
ODD = st.one_of(st.none(), st.booleans(), TEXTS, st.lists(st.integers(0, 9), max_size=2), NUMBERS)
FEATURE_VALUES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "distance_km": st.one_of(st.floats(0, 500), ODD),
        "stops": st.one_of(st.integers(0, 9), ODD),
        "express": st.one_of(st.booleans(), ODD),
        "city": st.one_of(st.sampled_from(["berlin", "paris"]), ODD),
        "vehicle": st.one_of(st.sampled_from(["bike", "car", "ship"]), ODD),
        "weight_kg": st.one_of(st.floats(-1e3, 1e3), ODD),
    },
).map(lambda changed: {**GOOD, **changed})
IDS = st.one_of(st.none(), TEXTS, st.integers(-(2**70), 2**70), st.floats(0, 1), st.booleans())
HEADER_VALUES = st.one_of(st.none(), st.binary(max_size=5), st.sampled_from([b"1", b"task", b"99"]))
NAMES = st.sampled_from(["task-id", "attempt", "deadline-ms", "reply-to", "event-id", "schema-id"])
RECORDS = st.builds(
    Record,
    value=st.one_of(
        st.none(),
        st.binary(max_size=10),
        st.builds(
            lambda features, event_id, order_id, t: json.dumps(
                {"features": features, "event_id": event_id, "order_id": order_id, "t": t}
            ).encode(),
            FEATURE_VALUES, IDS, IDS,
            st.sampled_from([TS_MS, TS_MS - 70_000, None, "2026-01-01T00:00:01Z", "x", 1.5, 0]),
        ),
    ),
    key=st.one_of(st.none(), st.binary(max_size=3)),
    headers=st.lists(st.tuples(NAMES, HEADER_VALUES), max_size=3).map(tuple),
    ts_ms=st.sampled_from([TS_MS, TS_MS + 1, 0, -5, NOW_MS + 400_000]),
    late=st.sampled_from([False, False, False, True]),
)  # fmt: skip
LAYOUTS: list[dict[str, FeaturePointer]] = [
    {},
    {"distance_km": FeaturePointer("/features/distance_km", 0.5, 3.0)},
    {"stops": FeaturePointer("/t"), "weight_kg": FeaturePointer("/features/weight_kg", 10.0)},
]


@given(st.lists(RECORDS, max_size=5), st.sampled_from(LAYOUTS), st.sampled_from(["", "/t"]))
@settings(max_examples=400)
def test_the_fast_loop_and_the_slow_path_agree(
    records: list[Record], pointers: dict[str, FeaturePointer], event_time: str
) -> None:
    decoded = decoder(pointers=pointers, event_time=event_time).decode(frame(*records))
    event = EventSettings(features=pointers, event_time=event_time)
    mapping = EventMapping.from_settings(event, schema_of())
    slow = RowDecoder(mapping, DecodePolicy(), TOPIC, schema_of().schema_id)
    lane = decoded.lane_frame
    width = struct.Struct(f"<{len(FEATURES)}f")
    owed, dead, late = 0, 0, 0
    for i, batch_row in enumerate(frame(*records).rows()):
        record = records[i]
        row = RawRow(record.ts_ms, record.key, batch_row.headers, record.value, record.late, NOW_MS)
        judged = slow.judge(row)
        outcomes = (judged.values is not None, judged.error is not None, judged.late)
        assert outcomes.count(True) == 1
        dead += judged.error is not None
        late += judged.late
        if judged.task is None:
            assert judged.values is None
            continue
        assert lane is not None
        assert lane.tasks[owed] == judged.task
        assert lane.attempts[owed] == judged.attempt
        assert lane.deadlines[owed] == judged.deadline_ms
        assert lane.reply_to[owed] == judged.reply_to
        assert (lane.keys[owed], lane.values[owed]) == (record.key, record.value)
        assert lane.offsets[owed] == 100 + i
        packed = bytes(width.size) if judged.values is None else width.pack(*judged.values)
        assert lane.block[owed * width.size : (owed + 1) * width.size] == packed
        decided = lane.decided[owed]
        assert (decided is None) == (judged.values is not None)
        if judged.error is not None:
            assert decided == ("error", judged.error.reason.value, judged.error.message)
        owed += 1
    assert owed == (0 if lane is None else len(lane))
    assert len(left(decoded.dead_out)) == dead == sum(decoded.dead_reasons.values())
    assert len(left(decoded.late_out)) == late == decoded.counts.get("late", 0)


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=6))
def test_what_is_packed_reads_back(values: Sequence[float]) -> None:
    schema = schema_of([FeatureSpec(f"f{i}", required=True) for i in range(len(values))])
    row = schema.pack({f"f{i}": value for i, value in enumerate(values)})
    packed = struct.pack(f"<{len(row)}f", *row)
    assert list(struct.unpack(f"<{len(row)}f", packed)) == list(values)


MOMENTS = st.datetimes(min_value=datetime(1970, 1, 2))  # noqa: DTZ001 - the zone is drawn apart


@given(MOMENTS, st.integers(-23, 23))
def test_iso_times_agree_with_the_standard_library(moment: datetime, hours: int) -> None:
    instant = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    micros = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert event_time_ms(instant.isoformat(), "/t") == micros // 1000
