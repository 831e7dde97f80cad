"""More than the worker can do: 1.3 times as many orders, each to be answered within 50 ms.

The worker sleeps for a known time, so that what it can do depends on nothing else; it is asked over
its own socket first. At best 1 / 1.3 = 76.9 % can be answered by it in time. In time means that
the caller had its wake-up before the order's deadline, by the caller's clock, and that the answer says
so of itself; what the answers alone say is told too (`.by_answer`).

`batch.margin_ms` is larger than usual: it is what an answer needs from the decision to the caller's
hand (rules, Redis, wake-up) on cores that are shared with a load generator. It costs no throughput
as long as the queue never runs dry: 50 ms less two batches of 14.4 ms leave room for it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.kit import missing
from bench.kit.answers import is_full, kinds, values
from bench.kit.capacity import rows_per_second
from bench.kit.load import Load, Run
from bench.kit.models import SLEEP_BATCH_MS, SLEEP_ROW_MS, SLEEP_ROWS, write_sleeping_model
from bench.kit.scale import seconds
from bench.kit.stack import BenchStack, bench_stack
from bench.kit.warm import warm_up
from bench.report import Report
from models.spec import load_spec

DEADLINE_MS = 50
FACTOR = 1.3
MEASURED_S = 20.0
LEAD_IN_S = 5.0
MARGIN_MS = 10.0


@dataclass(slots=True)
class Tally:
    """Orders by how they were answered."""

    orders: int = 0
    full: int = 0
    full_in_time: int = 0
    any_in_time: int = 0
    full_by_answer: int = 0
    any_by_answer: int = 0


def run(report: Report) -> None:
    """Goals: full_in_time >= 75, any_in_time = 100 (percent)."""
    overlay: dict[str, dict[str, Any]] = {
        "job": {"sla_ms": DEADLINE_MS},
        "batch": {"max_rows": SLEEP_ROWS, "margin_ms": MARGIN_MS},
    }
    with tempfile.TemporaryDirectory(prefix="tidemill-model-") as folder:
        model = Path(folder)
        write_sleeping_model(model)
        with bench_stack(report, model, overlay) as stack:
            _measure(report, stack, model)


def _measure(report: Report, stack: BenchStack, model: Path) -> None:
    span_s = seconds(MEASURED_S)
    lead_in_s = min(LEAD_IN_S, span_s)
    address = stack.settings.worker.address
    capacity = rows_per_second(address, load_spec(model), min(3.0, span_s))
    report.value("capacity", capacity, "rows/s")
    rate = FACTOR * capacity
    report.note(
        f"a batch takes {SLEEP_BATCH_MS:g} ms + {SLEEP_ROW_MS:g} ms a row, {SLEEP_ROWS} rows at most;"
        f" {rate:.0f}/s for {span_s:g} s after {lead_in_s:g} s; batch.margin_ms = {MARGIN_MS:g}"
    )
    load = Load(stack.settings)
    warm_up(report, load, top_rate=rate)
    run_ = load.run(rate, lead_in_s + span_s, deadline_ms=DEADLINE_MS)
    numbers = run_.numbers_after(lead_in_s)
    tally = _tally(stack, run_, numbers)
    for name in ("full_in_time", "any_in_time", "full", "full_by_answer", "any_by_answer"):
        report.value(name, 100 * getattr(tally, name) / tally.orders, "percent")
    found = values(stack.redis, stack.settings.prefix, run_, numbers)
    report.note(f"answers: {kinds(value for _, value in found)}")
    report.value("answered", run_.answered(numbers), "percent")
    if line := missing.tell(stack.settings, run_, numbers):
        report.note(line)
    report.value("behind.p99", run_.behind_ms(numbers)[len(numbers) * 99 // 100], "ms")


def _tally(stack: BenchStack, run_: Run, numbers: range) -> Tally:
    tally = Tally(orders=len(numbers))
    for number, value in values(stack.redis, stack.settings.prefix, run_, numbers):
        answer = orjson.loads(value)
        full = is_full(value)
        by_answer = answer["status"] == "ok" and answer["done_ms"] <= answer["deadline_ms"]
        got_ms = run_.got_s[number] * 1000
        in_time = by_answer and 0 < got_ms <= answer["deadline_ms"]
        tally.full += full
        tally.any_by_answer += by_answer
        tally.full_by_answer += by_answer and full
        tally.any_in_time += in_time
        tally.full_in_time += in_time and full
    return tally
