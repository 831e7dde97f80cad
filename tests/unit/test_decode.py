"""Contract: every record leaves as an answer owed, a late record or a dead letter, bytes kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from models.spec import FeatureSpec
from operators.mapping import EventMapping
from operators.row_decode import DecodePolicy
from tests.decoding import (
    GOOD,
    GOOD_ROW,
    GROUP,
    NOW_MS,
    TOPIC,
    TS_MS,
    Record,
    block_of,
    decoder,
    event,
    frame,
    left,
    only_reason,
    schema_of,
    without,
)
from tidemill.contracts import DeadLetterReason, task_id_for
from tidemill.settings import EventSettings, FeaturePointer


def test_a_good_record_is_owed_a_score() -> None:
    headers = (
        ("traceparent", b"00-1"),
        ("task-id", b"task:1"),
        ("reply-to", b"caller.a"),
        ("attempt", b"2"),
        ("deadline-ms", b"1767225600500"),
    )
    decoded = decoder().decode(frame(Record(headers=headers)))
    lane = decoded.lane_frame
    assert lane is not None
    assert (decoded.late_out, decoded.dead_out, decoded.counts) == (None, None, {})
    assert (lane.tasks, lane.attempts, lane.reply_to) == (["task:1"], [2], ["caller.a"])
    assert (lane.deadlines, lane.event_ms, lane.offsets) == ([1767225600500], [TS_MS], [100])
    assert (lane.keys, lane.values, lane.decided) == ([b"order-1"], [event()], [None])
    assert (lane.partition, lane.first_arrival_ms) == (3, NOW_MS)
    assert block_of(decoded) == [list(GOOD_ROW)]


def test_defaults_of_headers() -> None:
    lane = decoder(policy=DecodePolicy(sla_ms=70)).decode(frame(Record(headers=()))).lane_frame
    assert lane is not None
    assert (lane.attempts, lane.reply_to, lane.deadlines) == ([1], [None], [NOW_MS + 70])
    assert lane.tasks == [task_id_for(None, TOPIC, b"order-1", "e-1")]


def test_the_last_of_duplicate_headers_wins_and_the_blob_is_kept() -> None:
    headers = (("task-id", b"a"), ("attempt", b"1"), ("task-id", b"b"), ("attempt", b"7"))
    lane = decoder().decode(frame(Record(headers=headers), Record(headers=headers))).lane_frame
    assert lane is not None
    assert (lane.tasks, lane.attempts) == (["b", "b"], [7, 7])


@pytest.mark.parametrize(
    ("fields", "headers", "key", "event_id"),
    [
        ({}, (("event-id", b"from-header"),), b"k", "from-header"),
        ({}, (), b"k", "e-1"),
        ({}, (), None, "e-1"),
        ({"event_id": None}, (), b"k", "o-1"),
        ({"event_id": ""}, (), b"k", "o-1"),
        ({"event_id": 9007199254740993}, (), b"k", "9007199254740993"),
        ({"event_id": "with:colon/\u00e9"}, (), b"k", "with:colon/\u00e9"),
        ({"event_id": -7}, (), b"\xff\x00", "-7"),
    ],
)
def test_a_task_without_header_is_derived(
    fields: dict[str, Any], headers: tuple[tuple[str, bytes]], key: bytes | None, event_id: str
) -> None:
    record = Record(event(**fields), key=key, headers=headers)
    lane = decoder().decode(frame(record)).lane_frame
    assert lane is not None
    assert lane.tasks == [task_id_for(None, TOPIC, key, event_id)]


def test_ids_over_64_bits_are_kept_exactly() -> None:
    value = event().replace(b'"e-1"', b"%d" % (2**70 + 1))
    lane = decoder().decode(frame(Record(value, headers=()))).lane_frame
    assert lane is not None
    assert lane.tasks == [task_id_for(None, TOPIC, b"order-1", str(2**70 + 1))]


@pytest.mark.parametrize("bad", [1.5, True, [], {}, 1e30])
def test_an_id_of_another_kind_is_refused(bad: Any) -> None:
    decoded = decoder().decode(frame(Record(event(event_id=bad), headers=())))
    assert only_reason(decoded) == "wrong_type"
    assert decoded.lane_frame is None


def test_a_record_that_names_no_task_is_refused() -> None:
    decoded = decoder().decode(frame(Record(event(event_id=None, order_id=None), headers=())))
    assert only_reason(decoded) == "missing_key"
    assert decoded.lane_frame is None


FAULTS: list[tuple[bytes | None, str]] = [
    (None, "tombstone"),
    (b"", "empty_value"),
    (b"\xff\xfe", "bad_encoding"),
    (b"{", "malformed_json"),
    (b"[]", "not_an_object"),
    (event().replace(b"12.5", b"NaN"), "non_finite"),
    (event().replace(b'"stops"', b'"distance_km"'), "duplicate_key"),
    (event({"distance_km": 500.1}), "out_of_range"),
    (event({"distance_km": -0.1}), "out_of_range"),
    (event({"distance_km": "12.5"}), "wrong_type"),
    (event({"distance_km": True}), "wrong_type"),
    (event({"distance_km": [1]}), "wrong_type"),
    (event({"distance_km": None}), "missing_field"),
    (without("distance_km"), "missing_field"),
    (event({"stops": 1.5}), "wrong_type"),
    (event({"stops": 2**24 + 1}), "not_float32"),
    (event({"weight_kg": 3.5e38}), "not_float32"),
    (event({"weight_kg": -3.5e38}), "not_float32"),
    (event({"express": 1}), "wrong_type"),
    (event({"express": "true"}), "wrong_type"),
    (event({"city": "rome"}), "unknown_category"),
    (event({"city": 1}), "wrong_type"),
    (event({"city": ["paris"]}), "wrong_type"),
    (event({"vehicle": 2}), "wrong_type"),
    (b'{"event_id":"e","features":null}', "missing_field"),
    (b'{"event_id":"e","features":[1,2]}', "missing_field"),
    (b'{"event_id":"e","features":"text"}', "missing_field"),
    (b'{"event_id":"e"}', "missing_field"),
]


@pytest.mark.parametrize(("value", "reason"), FAULTS)
def test_a_fault_has_its_reason_and_answers_the_named_task(
    value: bytes | None, reason: str
) -> None:
    headers = (("task-id", b"t-2"), ("x", b"\xff"), ("x", None))
    decoded = decoder().decode(frame(Record(), Record(value, b"k\xff", headers), Record()))
    (letter,) = left(decoded.dead_out)
    assert (letter.key, letter.value, letter.original) == (b"k\xff", value, list(headers))
    extra = letter.extra
    assert extra.pop("x-dlq.message")
    assert extra == {
        "x-dlq.topic": TOPIC,
        "x-dlq.partition": "3",
        "x-dlq.offset": "101",
        "x-dlq.timestamp": str(TS_MS),
        "x-dlq.group": GROUP,
        "x-dlq.stage": "decode",
        "x-dlq.reason": reason,
        "x-dlq.attempts": "1",
    }
    lane = decoded.lane_frame
    assert lane is not None
    assert lane.tasks == ["task-1", "t-2", "task-1"]
    decided = lane.decided[1]
    assert decided is not None
    assert decided[:2] == ("error", reason)
    assert lane.decided[0] is lane.decided[2] is None
    assert block_of(decoded) == [list(GOOD_ROW), [0.0] * 6, list(GOOD_ROW)]
    assert decoded.counts == decoded.dead_reasons == {reason: 1}


@pytest.mark.parametrize(("value", "reason"), FAULTS)
def test_a_fault_without_a_task_is_a_dead_letter_only(value: bytes | None, reason: str) -> None:
    nameless = (
        None if value is None else value.replace(b"event_id", b"xx").replace(b"order_id", b"y")
    )
    decoded = decoder().decode(frame(Record(nameless, headers=())))
    assert only_reason(decoded) == reason
    assert decoded.lane_frame is None


def test_an_invalid_event_that_tells_its_id_is_owed_an_answer() -> None:
    decoded = decoder().decode(frame(Record(event({"stops": "x"}), headers=())))
    assert decoded.lane_frame is not None
    assert decoded.lane_frame.tasks == [task_id_for(None, TOPIC, b"order-1", "e-1")]


def test_the_message_names_feature_value_limit_and_remedy() -> None:
    decoded = decoder().decode(frame(Record(event({"distance_km": 900.0}))))
    message = left(decoded.dead_out)[0].extra["x-dlq.message"]
    for part in ("distance_km", "900.0", "0..500", "km", "/features/distance_km"):
        assert part in message
    decoded = decoder().decode(frame(Record(event({"city": "pariss"}))))
    assert "did you mean 'paris'" in left(decoded.dead_out)[0].extra["x-dlq.message"]
    decoded = decoder().decode(frame(Record(without("stops", "city"))))
    message = left(decoded.dead_out)[0].extra["x-dlq.message"]
    assert "stops (at /features/stops), city (at /features/city)" in message


BAD_HEADERS = [
    ("task-id", b""),
    ("task-id", b"a b"),
    ("task-id", b"a{b}"),
    ("task-id", b"\xff"),
    ("task-id", "caf\u00e9".encode()),
    ("task-id", b"x" * 201),
    ("reply-to", b"a/b"),
    ("reply-to", b""),
    ("attempt", b"-1"),
    ("attempt", b"1.0"),
    ("attempt", b" 1"),
    ("attempt", b"1_0"),
    ("attempt", b""),
    ("attempt", b"9" * 10),
    ("attempt", "\u0661".encode()),
    ("deadline-ms", b"soon"),
    ("deadline-ms", b"1767225600000.5"),
    ("deadline-ms", b"+5"),
    ("deadline-ms", b"9" * 16),
]


@pytest.mark.parametrize(("name", "value"), BAD_HEADERS)
def test_a_bad_header_is_refused_and_answered_if_a_task_is_named(name: str, value: bytes) -> None:
    headers = (("task-id", b"t-1"), ("traceparent", b"t"), (name, value))
    decoded = decoder().decode(frame(Record(headers=headers)))
    assert only_reason(decoded) == "bad_header"
    assert left(decoded.dead_out)[0].original == list(headers)
    lane = decoded.lane_frame
    if name == "task-id":  # it names no task: nobody could ask for the answer
        assert lane is None
    else:
        assert lane is not None
        assert lane.tasks == ["t-1"]
        assert lane.decided[0] is not None
        assert lane.decided[0][1] == "bad_header"
        assert lane.attempts == [1]


def test_a_null_header_is_an_absent_one() -> None:
    headers = (("task-id", b"t-1"), ("attempt", None), ("deadline-ms", None), ("reply-to", None))
    lane = decoder().decode(frame(Record(headers=headers))).lane_frame
    assert lane is not None
    assert (lane.attempts, lane.decided) == ([1], [None])


def test_schema_id_must_be_the_models() -> None:
    good = (("task-id", b"t"), ("schema-id", schema_of().schema_id.encode()))
    assert decoder().decode(frame(Record(headers=good))).counts == {}
    bad = (("task-id", b"t"), ("schema-id", b"other"))
    assert only_reason(decoder().decode(frame(Record(headers=bad)))) == "unknown_schema"


@pytest.mark.parametrize("ts_ms", [0, -1, -(2**40)])
def test_a_record_without_a_time_is_refused_even_if_late(ts_ms: int) -> None:
    decoded = decoder().decode(frame(Record(ts_ms=ts_ms, late=True)))
    assert only_reason(decoded) == "missing_time"
    assert decoded.lane_frame is not None
    assert decoded.lane_frame.event_ms == [NOW_MS]


def test_a_record_from_the_future_is_refused_beyond_the_limit() -> None:
    policy = DecodePolicy(future_limit_ms=1000)
    on_limit = Record(ts_ms=NOW_MS + 1000)
    assert decoder(policy=policy).decode(frame(on_limit)).counts == {}
    beyond = decoder(policy=policy).decode(frame(Record(ts_ms=NOW_MS + 1001)))
    assert only_reason(beyond) == "future_timestamp"
    assert left(beyond.dead_out)[0].ts_ms == -1
    assert beyond.lane_frame is not None
    assert beyond.lane_frame.event_ms == [NOW_MS]


def test_a_late_record_leaves_with_its_lateness_and_is_answered() -> None:
    late = Record(late=True, key=b"k", value=b"not json", headers=(("task-id", b"t-9"),))
    decoded = decoder().decode(frame(Record(), late, watermark_ms=TS_MS + 7000))
    (record,) = left(decoded.late_out)
    assert (record.ts_ms, record.key, record.value) == (TS_MS, b"k", b"not json")
    assert record.original == [("task-id", b"t-9")]
    assert record.extra == {
        "x-late.lateness-ms": "7000",
        "x-late.watermark-ms": str(TS_MS + 7000),
        "x-late.topic": TOPIC,
        "x-late.partition": "3",
        "x-late.offset": "101",
    }
    assert (decoded.dead_out, decoded.counts, decoded.dead_reasons) == (None, {"late": 1}, {})
    lane = decoded.lane_frame
    assert lane is not None
    assert lane.tasks == ["task-1", "t-9"]
    assert lane.decided[1] is not None
    assert lane.decided[1][:2] == ("late", "late")


def test_a_late_record_is_named_by_its_event_id_or_not_answered() -> None:
    decoded = decoder().decode(frame(Record(late=True, headers=())))
    assert decoded.lane_frame is not None
    assert decoded.lane_frame.tasks == [task_id_for(None, TOPIC, b"order-1", "e-1")]
    decoded = decoder().decode(frame(Record(b"{", late=True, headers=())))
    assert decoded.lane_frame is None
    assert len(left(decoded.late_out)) == 1


@pytest.mark.parametrize(
    ("sent", "row"),
    [
        (without("weight_kg"), {5: 1.5}),
        (event({"weight_kg": None}), {5: 1.5}),
        (without("express"), {2: 0.0}),
        (event({"express": None}), {2: 0.0}),
        (without("vehicle"), {4: 2.0}),
        (event({"vehicle": None}), {4: 2.0}),
        (event({"vehicle": "ship"}), {4: 2.0}),
        (event({"stops": 4.0}), {1: 4.0}),
        (event({"stops": 2**24}), {1: 2.0**24}),
        (event({"weight_kg": 1e-60}), {5: 0.0}),
        (event({"weight_kg": 2**63}), {5: 2.0**63}),
        (event({"weight_kg": 0.1}), {5: float(np.float32(0.1))}),
        (event({"weight_kg": 3.4028235e38}), {5: float(np.finfo(np.float32).max)}),
        (event(note="a:b:c", more={"true": [True, {"x": "\u003a\\"}]}), {}),
    ],
)
def test_values_that_are_taken(sent: bytes, row: dict[int, float]) -> None:
    expected = [row.get(i, value) for i, value in enumerate(GOOD_ROW)]
    decoded = decoder().decode(frame(Record(), Record(sent)))
    assert decoded.counts == {}
    assert block_of(decoded) == [list(GOOD_ROW), expected]


def test_values_up_to_the_limit_in_bytes() -> None:
    value = event()
    fits = decoder(policy=DecodePolicy(max_value_bytes=len(value)))
    assert fits.decode(frame(Record(value))).counts == {}
    over = decoder(policy=DecodePolicy(max_value_bytes=len(value) - 1))
    assert only_reason(over.decode(frame(Record(value)))) == "oversized"


def test_a_dead_letter_over_the_limit_of_its_topic_is_cut_and_says_so() -> None:
    value = b"x" * 50_000
    policy = DecodePolicy(max_value_bytes=1000, dead_letter_bytes=10_000)
    (letter,) = left(decoder(policy=policy).decode(frame(Record(value))).dead_out)
    assert letter.value is not None
    assert value.startswith(letter.value)
    assert len(letter.value) + int(letter.extra["x-dlq.truncated-bytes"]) == len(value)
    assert 9000 < len(letter.value) < 10_000


def test_nested_events_are_mapped_scaled_and_defaulted() -> None:
    features = (
        FeatureSpec("lat", required=True, low=-90, high=90),
        FeatureSpec("price", required=True),
        FeatureSpec("age_s", required=True, high=100),
        FeatureSpec("first", required=True),
        FeatureSpec("odd", dtype="category", categories=("x",), required=True),
    )
    pointers = {
        "lat": FeaturePointer("/geo/pos/lat"),
        "price": FeaturePointer("/total_cents", 0.01),
        "age_s": FeaturePointer("/geo/age_ms", 0.001, 5.0),
        "first": FeaturePointer("/items/1/n"),
        "odd": FeaturePointer("/a~1b/m~0n"),
    }
    made = decoder(features, pointers=pointers, id="/meta/id", event_id="")
    doc = (
        b'{"meta":{"id":"m-1"},"geo":{"pos":{"lat":52.5},"age_ms":%s},"total_cents":1999,'
        b'"items":[{"n":1},{"n":2}],"a/b":{"m~n":"x"}}'
    )
    decoded = made.decode(
        frame(*(Record(doc % age, headers=()) for age in (b"1500", b"null", b"2e5")))
    )
    assert decoded.counts == {"out_of_range": 1}
    rows = block_of(decoded, 5)
    assert rows[0] == [52.5, float(np.float32(19.99)), 1.5, 2.0, 0.0]
    assert rows[1][2] == 5.0
    message = left(decoded.dead_out)[0].extra["x-dlq.message"]
    assert "/geo/age_ms times 0.001" in message


def test_features_at_the_root() -> None:
    features = (FeatureSpec("b", required=True), FeatureSpec("a", dtype="int", default=4))
    pointers = {name: FeaturePointer(f"/{name}") for name in ("a", "b")}
    made = decoder(features, pointers=pointers)
    records = [Record(b'{"a":1,"b":2}'), Record(b'{"b":3}'), Record(b'{"b":3,"b":3}'), Record(b"7")]
    decoded = made.decode(frame(*records))
    assert block_of(decoded, 2) == [[2.0, 1.0], [3.0, 4.0], [0.0, 0.0], [0.0, 0.0]]
    assert decoded.counts == {"duplicate_key": 1, "not_an_object": 1}


@pytest.mark.parametrize(
    ("event_time", "reason"),
    [
        (TS_MS, None),
        (TS_MS + 60_000, None),
        (TS_MS - 60_001, "time_mismatch"),
        (TS_MS * 1000, "time_mismatch"),
        (TS_MS // 1000, "time_mismatch"),
        ("2026-01-01T00:00:00Z", None),
        ("2026-01-01T01:00:00.5+01:00", None),
        ("2026-01-01T00:00:00", "naive_time"),
        ("2026-01-01T24:00:00Z", "malformed_time"),
        ("yesterday", "malformed_time"),
        (0, "missing_time"),
        (None, "missing_time"),
        (True, "wrong_type"),
    ],
)
def test_the_payloads_time_must_agree_with_the_records(event_time: Any, reason: str | None) -> None:
    made = decoder(event_time="/event_time")
    decoded = made.decode(frame(Record(event(event_time=event_time))))
    if reason is None:
        assert decoded.counts == {}
    else:
        assert only_reason(decoded) == reason


def test_one_text_read_by_two_pointers_hides_no_lost_key() -> None:
    made = decoder(event_id="/order_id")  # its colon must not be counted twice
    value = event(order_id="o:1").replace(b'"stops":3', b'"stops":3,"stops":4')
    assert only_reason(made.decode(frame(Record(value)))) == "duplicate_key"


def test_an_empty_frame_leaves_nothing() -> None:
    decoded = decoder().decode(frame())
    assert (decoded.lane_frame, decoded.late_out, decoded.dead_out) == (None, None, None)


def test_every_reason_of_decoding_is_in_a_test_of_this_file() -> None:
    tested = {reason for _, reason in FAULTS} | {
        "oversized", "too_deep", "unknown_schema", "bad_header", "missing_key", "missing_time",
        "future_timestamp", "time_mismatch", "naive_time", "malformed_time",
    }  # fmt: skip
    assert tested == {str(r) for r in DeadLetterReason} - {"model_error", "non_finite_output"}
    deep = event().replace(b"12.5", b"[" * 300 + b"]" * 300)
    assert only_reason(decoder().decode(frame(Record(deep)))) == "too_deep"


def test_a_row_is_read_alike_alone_and_in_a_frame() -> None:
    mapping = EventMapping.from_settings(EventSettings(), schema_of())
    assert mapping.row({"features": GOOD}) == GOOD_ROW
    assert not math.isnan(sum(mapping.row({"features": GOOD})))
