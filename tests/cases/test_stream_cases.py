"""Every recorded case of the groups payload, time and kafka, through the real decoder.

A case that is known has its outcome a record; any other must keep the promises of all records.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from drift.control import ControlMessage, ControlState
from models.spec import FeatureSpec
from operators.dedup import DedupPolicy, DedupWindow
from operators.errors import RecordError
from operators.event_time import event_time_ms
from operators.frames import BatchFrame
from operators.row_decode import DecodePolicy
from tests.decoding import TOPIC, Left, Record, decoder, frame, left
from tests.recorded_cases import CaseRecord, StreamCase
from tidemill.contracts import DeadLetterReason, task_id_for
from tidemill.settings import FeaturePointer

GROUPS = ("payload", "time", "kafka")
OUT_OF_ORDERNESS_MS = 5000
OK, LATE = "ok", "late"


@dataclass(frozen=True)
class Known:
    """What becomes of each record of a case; ``event_time`` is the pointer that it needs."""

    outcomes: tuple[str, ...]
    event_time: str = ""
    required: bool = False


KNOWN = {
    "bigint_above_2p53": Known((OK,)),
    "deep_nesting": Known(("too_deep",)),
    "dst_fall_back_double_hour": Known(("naive_time", "naive_time"), "/event_time"),
    "duplicate_json_keys": Known(("duplicate_key",)),
    "empty_value": Known(("empty_value",)),
    "far_past_ts": Known((LATE,)),
    "hot_key": Known((OK,) * 5),
    "huge_digit_string": Known(("not_float32",)),
    "idle_partition": Known((OK, OK)),
    "idle_partition_returns_with_old_data": Known((OK, OK, LATE)),
    "invalid_utf8_latin1": Known(("bad_encoding",)),
    "iso_leap_second_and_24h": Known(("malformed_time", "malformed_time"), "/event_time"),
    "iso_naive_local_time": Known(("naive_time",), "/event_time"),
    "json_trailing_nul": Known(("malformed_json",)),
    "json_trailing_second_document": Known(("malformed_json",)),
    "late_beyond_allowed": Known((OK, OK, LATE), "/event_time_ms"),
    "lone_surrogate": Known(("bad_encoding",)),
    "malformed_json_truncated": Known(("malformed_json",)),
    "nan_literal": Known(("non_finite",)),
    "nanosecond_iso": Known((OK,), "/event_time"),
    "non_utf8_key": Known((OK,)),
    "null_key": Known((OK,)),
    "out_of_order_within_bound": Known((OK, OK), "/event_time_ms"),
    "oversized_record_on_produce": Known(("oversized",)),
    "poison_record_crash_loop": Known((OK, "bad_encoding", OK)),
    "producer_duplicate": Known((OK, OK)),
    "schema_field_renamed": Known((OK, "missing_field"), required=True),
    "tombstone_is_falsy_message": Known(("tombstone",)),
    "utf16_payload": Known(("bad_encoding",)),
    "utf8_bom": Known(("bad_encoding",)),
    "zero_or_negative_ts": Known(("missing_time", "missing_time")),
}


@dataclass(frozen=True)
class Ran:
    """A case as it went through the decoder."""

    sent: BatchFrame
    tasks: list[str]
    outcomes: list[str]
    dead: list[Left]
    late: list[Left]


def event_time_of(value: bytes | None) -> int | None:
    """The event's time as its producer means it; by contract it is the record's timestamp."""
    try:
        doc: Any = json.loads(value or b"")
        return event_time_ms(doc.get("event_time_ms", doc.get("event_time")), "")
    except (ValueError, RecursionError, AttributeError, RecordError):
        return None


def run(case: StreamCase, known: Known) -> Ran:
    """Decode all records of a case as one frame, late flags as the bridge would set them."""
    stamps = [stamp_of(record) for record in case.records]
    present_ms = max(1_767_225_600_000, *(ts for ts in stamps if ts > 0), 1)
    records, seen_ms = [], present_ms if len(stamps) == 1 else 0
    for record, ts_ms in zip(case.records, stamps, strict=True):
        late = 0 < ts_ms <= seen_ms - OUT_OF_ORDERNESS_MS
        seen_ms = max(seen_ms, ts_ms)
        records.append(Record(record.value, record.key, record.headers, ts_ms, late))
    sent = replace_arrival(frame(*records, watermark_ms=seen_ms - OUT_OF_ORDERNESS_MS), present_ms)
    names = ("lat", "lon", "eta_min")
    default = None if known.required else 0.0
    features = [FeatureSpec(name, default=default, required=known.required) for name in names]
    pointers = {name: FeaturePointer(f"/{name}") for name in names}
    policy = DecodePolicy(time_tolerance_ms=0)
    made = decoder(features, policy, pointers, event_time=known.event_time)
    decoded = made.decode(sent)
    lane = decoded.lane_frame
    dead, late_rows = left(decoded.dead_out), left(decoded.late_out)
    outcomes: dict[int, str] = {}
    for letter in dead:
        outcomes[int(letter.extra["x-dlq.offset"])] = letter.extra["x-dlq.reason"]
    for row in late_rows:
        offset = int(row.extra["x-late.offset"])
        assert offset not in outcomes
        outcomes[offset] = LATE
    for i, offset in enumerate([] if lane is None else lane.offsets):
        decided = lane.decided[i] if lane else None
        if decided is None:
            assert offset not in outcomes
            outcomes[offset] = OK
        else:
            assert decided[1] == outcomes[offset]
    ordered = [outcomes.pop(offset) for offset in sent.offsets]
    assert not outcomes
    return Ran(sent, [] if lane is None else lane.tasks, ordered, dead, late_rows)


def stamp_of(record: CaseRecord) -> int:
    """The record's timestamp: its event's time where it has one, unless the case is about it."""
    if record.ts_ms is not None and record.ts_ms <= 0:
        return record.ts_ms
    return event_time_of(record.value) or record.ts_ms or 1_767_225_600_000


def replace_arrival(sent: BatchFrame, now_ms: int) -> BatchFrame:
    """The frame as if it had arrived at ``now_ms``."""
    return replace(sent, first_arrival_ms=now_ms + 100)


@pytest.mark.cases(groups=GROUPS)
def test_each_record_of_a_case_has_its_outcome(case: StreamCase) -> None:
    known = KNOWN.get(case.name)
    ran = run(case, known or Known(()))
    if known is not None:
        assert tuple(ran.outcomes) == known.outcomes
    assert set(ran.outcomes) <= {OK, LATE} | set(DeadLetterReason)
    by_offset = dict(zip(ran.sent.offsets, case.records, strict=True))
    for row, header in [(r, "x-dlq.offset") for r in ran.dead] + [
        (r, "x-late.offset") for r in ran.late
    ]:
        original = by_offset[int(row.extra[header])]
        assert (row.key, tuple(row.original)) == (original.key, original.headers)
        if "x-dlq.truncated-bytes" in row.extra:
            assert original.value is not None
            assert row.value is not None
            assert original.value.startswith(row.value)
            assert len(original.value) == len(row.value) + int(row.extra["x-dlq.truncated-bytes"])
        else:
            assert row.value == original.value


def _exact_id(ran: Ran, case: StreamCase) -> None:
    key = case.records[0].key
    assert ran.tasks == [task_id_for(None, TOPIC, key, "9007199254740993")]


def _derived_from_order(ran: Ran, case: StreamCase) -> None:
    assert ran.tasks == [task_id_for(None, TOPIC, case.records[0].key, "o-1")]


def _scored_once(ran: Ran, case: StreamCase) -> None:
    seen = DedupWindow(DedupPolicy())
    mask, _, _ = seen.filter(ran.tasks, [1] * len(ran.tasks), 0)
    assert mask == [True] + [False] * (len(case.records) - 1)


def _names_columns(ran: Ran, case: StreamCase) -> None:
    message = ran.dead[0].extra["x-dlq.message"]
    assert all(f"{name} (at /{name})" in message for name in ("lat", "lon", "eta_min"))


def _says_lateness(ran: Ran, case: StreamCase) -> None:
    (row,) = ran.late
    lateness = int(row.extra["x-late.lateness-ms"])
    assert lateness == int(row.extra["x-late.watermark-ms"]) - row.ts_ms >= 0


def _floors(ran: Ran, case: StreamCase) -> None:
    assert ran.sent.ts[0] % 1000 == 123


def _is_cut(ran: Ran, case: StreamCase) -> None:
    assert "x-dlq.truncated-bytes" in ran.dead[0].extra


DETAILS = {
    "bigint_above_2p53": _exact_id,
    "null_key": _derived_from_order,
    "non_utf8_key": _derived_from_order,
    "producer_duplicate": _scored_once,
    "hot_key": _scored_once,
    "schema_field_renamed": _names_columns,
    "far_past_ts": _says_lateness,
    "late_beyond_allowed": _says_lateness,
    "idle_partition_returns_with_old_data": _says_lateness,
    "nanosecond_iso": _floors,
    "oversized_record_on_produce": _is_cut,
}


@pytest.mark.cases(names=tuple(DETAILS))
def test_what_a_case_says_beyond_its_outcome(case: StreamCase) -> None:
    ran = run(case, KNOWN[case.name])
    assert ran.outcomes
    DETAILS[case.name](ran, case)


@pytest.mark.cases(names=("control_message_out_of_order", "drift_alert_replayed"))
def test_control_messages_out_of_order_or_twice(case: StreamCase) -> None:
    state, versions = ControlState(), []
    for record in case.records:
        sent = json.loads(record.value or b"")
        command = {"unfreeze": "release"}.get(sent["action"], sent["action"])
        state.apply(ControlMessage(sent["version"], command, sent["feature"]).encode())
        versions.append(state.version)
    assert versions == [max(versions)] * len(versions)
    assert state.frozen == (() if case.name == "control_message_out_of_order" else ("eta_min",))
