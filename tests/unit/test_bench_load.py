"""What the benches send, and what they make of what they saw."""

from __future__ import annotations

import json
import os
from array import array
from pathlib import Path

import pytest

from bench.kit.answers import is_full, kinds
from bench.kit.cpu import cost_line, thread_cpu_s
from bench.kit.load import Run
from bench.kit.memory import total, totals
from bench.kit.models import FEATURES
from bench.kit.orders import ID_DIGITS, Orders
from bench.kit.scale import seconds, shortened
from bench.kit.stats import Schedule
from operators.answers import ModelIdentity, Verdict, encode_answers
from operators.records import LaneFrame
from tests.lane_frames import lane_frame
from tidemill.contracts import Status, Tier, valid_id


def test_an_order_is_an_event_with_all_features_and_a_task_that_may_be_one() -> None:
    orders = Orders("1a2b3c4d")
    task = orders.task(12)
    event = json.loads(orders.value(task, 12))
    assert valid_id(task.decode())
    assert task.endswith(b"12".zfill(ID_DIGITS))
    assert event["order_id"] == task.decode()
    assert tuple(event["features"]) == FEATURES


def test_orders_differ_in_their_features() -> None:
    orders = Orders("1a2b3c4d")
    values = {orders.value(b"t", number) for number in range(200)}
    assert len(values) == 200


def run_of(got_s: list[float]) -> Run:
    sent_s = [100.0 + 0.001 * n for n in range(len(got_s))]
    schedule = Schedule(1000.0, len(got_s))
    return Run(Orders("r"), schedule, 100.0, array("d", sent_s), array("d", got_s))


def test_latency_counts_from_the_production_and_leaves_out_the_unanswered() -> None:
    run = run_of([100.010, 0.0, 100.007])
    everyone = run.numbers_after(0.0)
    assert run.latencies_ms(everyone) == pytest.approx([5.0, 10.0])
    assert run.answered(everyone) == pytest.approx(200 / 3)


def test_the_lead_in_is_left_out() -> None:
    run = run_of([200.0] * 100)
    assert run.numbers_after(0.0) == range(100)
    assert run.numbers_after(0.05) == range(51, 100)


def test_a_generator_that_falls_behind_is_seen() -> None:
    run = run_of([200.0] * 10)
    run.sent_s[4] += 0.5
    behind_ms = run.behind_ms(run.numbers_after(0.0))
    assert behind_ms[-1] == pytest.approx(500.0)
    assert behind_ms[0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("status", "tier", "expected"),
    [
        (Status.OK, Tier.FULL, True),
        (Status.OK, Tier.RULES, False),
        (Status.ERROR, Tier.NONE, False),
    ],
)
def test_full_answers_are_told_from_others(status: Status, tier: Tier, expected: bool) -> None:
    frame: LaneFrame = lane_frame(1)
    model = ModelIdentity("m", "1", ("y",))
    [value] = encode_answers(frame, [0], Verdict(status, tier), None, model, (0, ()), 1)
    assert is_full(value) is expected


def test_kinds_of_answers_are_counted() -> None:
    frame = lane_frame(3)
    model = ModelIdentity("m", "1", ("y",))
    verdict = Verdict(Status.OK, Tier.RULES, "deadline_near")
    rules = encode_answers(frame, [0, 1], verdict, None, model, (0, ()), 1)
    full = encode_answers(frame, [2], Verdict(Status.OK, Tier.FULL), None, model, (0, ()), 1)
    assert kinds(full + rules) == "ok rules deadline_near 2, ok full 1"


def test_the_cost_of_a_record_is_told_by_process() -> None:
    before = {"kafka": 1.0, "redis": 5.0, "idle": 2.0}
    after = {"kafka": 1.5, "redis": 6.0, "idle": 2.0, "loop": 0.25}
    assert cost_line(before, after, 100_000) == "redis 10.0, kafka 5.0, loop 2.5"


def test_memory_adds_up_over_processes_and_minutes() -> None:
    samples = [(0.0, {"kafka": 400.0, "redis": 20.0}), (90.0, {"kafka": 410.0})]
    assert total(samples[0][1]) == 420.0
    assert totals(samples) == [(0.0, 420.0), (1.5, 410.0)]


def test_threads_of_a_process_are_told_by_name() -> None:
    used_s = thread_cpu_s(os.getpid())
    assert Path("/proc/self/comm").read_text("utf-8").strip() in used_s
    assert sum(used_s.values()) > 0


def test_bench_seconds_shortens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCH_SECONDS", raising=False)
    assert (seconds(12.0), shortened()) == (12.0, False)
    monkeypatch.setenv("BENCH_SECONDS", "2")
    assert (seconds(12.0), shortened()) == (2.0, True)
