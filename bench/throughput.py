"""Saturated records a second: the job, a hand-written loop, and the job with exactly-once sinks.

Each measurement works off a backlog that was produced while nobody consumed, and counts results at
the ends of their topic, in the middle of the drain (`bench.kit.stats.steady_rate`). Job and loop take
turns on the same stack; while one drains, the other stands still.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.kit.drain import JobDrain, LoopDrain
from bench.kit.load import Load
from bench.kit.models import write_torch_model
from bench.kit.scale import seconds, shortened
from bench.kit.stack import BenchStack, bench_stack
from bench.kit.stats import STEADY_FROM, STEADY_TO
from bench.kit.warm import warm_up
from bench.report import Report

MEASURED_S = 8.0
TURNS = 3
FIRST_RECORDS = 100_000  # first drains warm up, and tell how many records a turn takes
MOST_RECORDS = 1_000_000  # their answers fit into Redis

Drain = Callable[[int], float]


def run(report: Report) -> None:
    """Goal: throughput.ratio >= 2."""
    with tempfile.TemporaryDirectory(prefix="tidemill-model-") as folder:
        model = Path(folder)
        write_torch_model(model)
        # in a backlog every order is old: with the usual 200 ms the rules would answer them all
        overlay = {"job": {"sla_ms": 120_000}, "redis": {"ttl_s": 300}}
        with bench_stack(report, model, overlay) as stack:
            _measure(report, stack, model)


def _measure(report: Report, stack: BenchStack, model: Path) -> None:
    turns = 1 if shortened() else TURNS
    checkpoint_s = stack.settings.job.checkpoint_interval_ms / 1000
    report.note(
        f"medians of {turns} turns of about {seconds(MEASURED_S):g} s; checkpoints every"
        f" {checkpoint_s:g} s; broker, Redis, Flink and worker share the cores; same records,"
        " model, broker, partitions, result JSON, headers and Redis writes for both"
    )
    warm_up(report, Load(stack.settings), top_rate=8000)
    job = JobDrain(report, stack)
    drains: dict[str, Drain] = {"job": job.results, "loop": LoopDrain(report, stack, model).results}
    records = {name: _records(drain) for name, drain in drains.items()}
    report.note(", ".join(f"{name}: {count} records" for name, count in records.items()))
    rates: dict[str, list[float]] = {name: [] for name in drains}
    for _ in range(turns):
        for name, drain in drains.items():
            rates[name].append(drain(records[name]))
    for name, seen in rates.items():
        _tell(report, name, seen)
    report.value("ratio", median(rates["job"]) / median(rates["loop"]), "x")
    _measure_strict(report, stack, job, turns)


def _measure_strict(report: Report, stack: BenchStack, job: JobDrain, turns: int) -> None:
    stack.switch({"job": {"mode": "strict"}})
    report.note("strict: exactly-once sinks; Redis is the relay's work there, which does not run")
    count = _records(job.results)
    _tell(report, "strict", [job.results(count) for _ in range(turns)])
    report.note("strict_relayed: answers in Redis, with the relay beside the job")
    report.value("strict_relayed", job.relayed(count), "records/s")


def _tell(report: Report, name: str, rates: list[float]) -> None:
    report.value(name, median(rates), "records/s")
    report.note(f"{name}: {', '.join(f'{rate:.0f}' for rate in rates)} records/s")


def _records(drain: Drain) -> int:
    """How many records make a turn long enough: by the second of two drains, the first is slower."""
    first = FIRST_RECORDS // 10 if shortened() else FIRST_RECORDS
    drain(first)
    rate = drain(first)
    return min(MOST_RECORDS, int(rate * seconds(MEASURED_S) / (STEADY_TO - STEADY_FROM)))
