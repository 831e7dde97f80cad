"""The demo's plan: what it mixes, when, and that each broken record names no task."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest

from deploy.demo.ledger import Entry
from deploy.demo.plan import (
    FAULTS,
    Kind,
    Mix,
    Schedule,
    Sending,
    TimeScale,
    expected_reason,
    plan_orders,
    plan_warmup,
)
from models.dataset import Event
from models.spec import FeatureSpec, ModelSpec, OutputSpec
from operators.header_codec import encode_headers
from operators.mapping import EventMapping
from operators.row_decode import DecodePolicy, RawRow, RowDecoder
from operators.schema import FeatureSchema
from tidemill.settings import EventSettings

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SCHEDULE = Schedule(NOW_MS, seconds=10.0, rate=100.0)
LATE_BEFORE_MS = NOW_MS - 30_000


def recorded(count: int, first: int = 0) -> list[Event]:
    """Orders a minute apart, of ten years ago."""
    return [
        Event(
            order_id=str(first + i),
            event_time_ms=1_400_000_000_000 + 60_000 * (first + i),
            key=f"N{i % 7}",
            zone="BOS",
            features={"hour": 12.5},
            label=float(i),
            label_time_ms=1_400_000_000_000 + 60_000 * (first + i) + 1,
        )
        for i in range(count)
    ]


def planned(mix: Mix | None = None) -> list[Sending]:
    held_back, orders = recorded(100), recorded(1000, first=100)
    return plan_orders(orders, held_back, SCHEDULE, mix or Mix(), LATE_BEFORE_MS)


def test_one_record_a_slot_at_a_steady_rate() -> None:
    plan = planned()
    assert [s.at_s for s in plan] == [slot / 100 for slot in range(1000)]
    assert Counter(s.kind for s in plan) == {
        Kind.ORDER: 950, Kind.LATE: 20, Kind.DUPLICATE: 20, Kind.BAD: 10,
    }  # fmt: skip


def test_the_same_seed_gives_the_same_plan_and_another_another() -> None:
    assert planned() == planned()
    assert planned(Mix(seed=2)) != planned()


def test_a_short_plan_still_has_one_of_each() -> None:
    short = Schedule(NOW_MS, seconds=1.0, rate=10.0)
    plan = plan_orders(recorded(10, 5), recorded(5), short, Mix(), LATE_BEFORE_MS)
    assert {s.kind for s in plan} == {Kind.ORDER, Kind.LATE, Kind.DUPLICATE, Kind.BAD}


def test_every_task_is_sent_once_but_for_its_duplicates() -> None:
    plan = planned()
    once = Counter(s.task for s in plan if s.task and s.kind is not Kind.DUPLICATE)
    assert set(once.values()) == {1}
    assert {s.task for s in plan if s.kind is Kind.DUPLICATE} <= once.keys()


def test_a_duplicate_is_its_order_byte_for_byte_and_follows_it_soon() -> None:
    orders: dict[str, Sending] = {}
    for sending in planned():
        if sending.kind is Kind.ORDER:
            orders[sending.name] = sending
        elif sending.kind is Kind.DUPLICATE:
            first = orders[sending.name]
            assert (first.key, first.value, first.event_ms) == (
                sending.key, sending.value, sending.event_ms,
            )  # fmt: skip
            assert 0 < sending.at_s - first.at_s <= 2.1


def test_orders_keep_their_order_are_never_in_the_future_and_inside_the_bound() -> None:
    orders = [s for s in planned() if s.kind is Kind.ORDER]
    assert all(a.event_ms < b.event_ms for a, b in pairwise(orders))
    for sending in orders:
        behind_ms = NOW_MS + 1000 * sending.at_s - sending.event_ms
        assert 0 <= behind_ms < 15_000


def test_late_orders_happened_well_before_the_watermark_of_the_warmup() -> None:
    late = [s for s in planned() if s.kind is Kind.LATE]
    assert all(s.event_ms <= LATE_BEFORE_MS - 15_000 for s in late)
    assert all(s.event_ms >= LATE_BEFORE_MS - 700_000 for s in late)


def test_recorded_spacing_stays_in_proportion() -> None:
    events = [*recorded(2), *recorded(1, first=10)]
    scale = TimeScale.over(events, 1000, 2000)
    assert [scale.event_ms(e.event_time_ms) for e in events] == [1000, 1100, 2000]


def test_events_say_both_their_times() -> None:
    first = planned()[0]
    assert first.value is not None
    body = json.loads(first.value)
    assert body["event_time_ms"] == first.event_ms
    assert body["recorded_time_ms"] == recorded(1, first=100)[0].event_time_ms


def test_too_few_events_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="1000 records need 960 orders and 20 held back"):
        plan_orders(recorded(900), recorded(20), SCHEDULE, Mix(), LATE_BEFORE_MS)
    with pytest.raises(ValueError, match="there are 1000 and 19"):
        plan_orders(recorded(1000), recorded(19), SCHEDULE, Mix(), LATE_BEFORE_MS)


def test_a_mix_of_mostly_faults_is_refused() -> None:
    with pytest.raises(ValueError, match="at most half"):
        Mix(late=0.3, duplicate=0.3)


def test_the_warmup_has_names_of_its_own() -> None:
    plan = plan_warmup(recorded(50), Schedule(NOW_MS, 1.0, 40.0))
    assert len(plan) == 40
    assert all(s.kind is Kind.WARMUP and s.name.startswith("warmup-") for s in plan)


def test_a_broken_record_names_no_task_and_gets_its_reason() -> None:
    """Asked of the job's own decoder, header and all."""
    spec = ModelSpec(
        "demo", "1", (FeatureSpec("hour", required=True),), (OutputSpec("delay"),),
        kind="callable", function="x:y",
    )  # fmt: skip
    schema = FeatureSchema.from_spec(spec)
    mapping = EventMapping.from_settings(EventSettings(), schema)
    decoder = RowDecoder(mapping, DecodePolicy(), "orders", schema.schema_id)
    bad = [s for s in planned() if s.kind is Kind.BAD]
    assert {expected_reason(s.name) for s in bad} == {fault.reason for fault in FAULTS}
    for sending in bad:
        headers = encode_headers([sending.header])
        judged = decoder.judge(
            RawRow(sending.event_ms, sending.key, headers, sending.value, False, NOW_MS)
        )
        assert judged.task is None
        assert judged.error is not None
        assert judged.error.reason == expected_reason(sending.name)


def test_ledger_entries_survive_their_file() -> None:
    for sending in planned():
        entry = Entry.of(sending, sent_ns=5)
        assert Entry.from_json(entry.to_json()) == entry
        assert entry.task == sending.task
