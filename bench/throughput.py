"""Saturated records a second: the job, a hand-written loop, and the job with exactly-once sinks.

Each measurement works off a backlog that was produced while nobody consumed, and counts results at
the ends of their topic, in the middle of the drain (`bench.kit.stats.steady_rate`). Job and loop take
turns on the same stack; while one drains, the other stands still.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.kit.answers import is_full
from bench.kit.backlog import TopicEnds, fill
from bench.kit.cpu import cost_line, cpu_s, thread_cpu_s
from bench.kit.errors import BenchError
from bench.kit.load import Load
from bench.kit.models import write_torch_model
from bench.kit.scale import seconds, shortened
from bench.kit.stack import BenchStack, bench_stack
from bench.kit.stats import STEADY_FROM, STEADY_TO, steady_rate
from bench.kit.warm import warm_up
from bench.report import Report

MEASURED_S = 8.0
TURNS = 3
FIRST_RECORDS = 100_000  # a first drain warms up, and tells how many records a turn takes
MOST_RECORDS = 1_000_000  # their answers fit into Redis
LOOP_ORDERS, LOOP_RESULTS = "bench.loop.orders", "bench.loop.results"
SAMPLE = 2000

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
    stack.make_topic(LOOP_ORDERS)
    stack.make_topic(LOOP_RESULTS)
    drains = {"job": _job_drain(report, stack), "loop": _loop_drain(report, stack, model)}
    records = {name: _records(drain) for name, drain in drains.items()}
    report.note(", ".join(f"{name}: {count} records" for name, count in records.items()))
    rates: dict[str, list[float]] = {name: [] for name in drains}
    for _ in range(turns):
        for name, drain in drains.items():
            rates[name].append(drain(records[name]))
    for name, seen in rates.items():
        _tell(report, name, seen)
    report.value("ratio", median(rates["job"]) / median(rates["loop"]), "x")
    stack.switch({"job": {"mode": "strict"}})
    report.note("strict: exactly-once sinks; Redis is the relay's work there, which does not run")
    drain = _job_drain(report, stack)
    count = _records(drain)
    _tell(report, "strict", [drain(count) for _ in range(turns)])


def _tell(report: Report, name: str, rates: list[float]) -> None:
    report.value(name, median(rates), "records/s")
    report.note(f"{name}: {', '.join(f'{rate:.0f}' for rate in rates)} records/s")


def _records(drain: Drain) -> int:
    """How many records make a turn long enough."""
    first = FIRST_RECORDS // 10 if shortened() else FIRST_RECORDS
    rate = drain(first)
    return min(MOST_RECORDS, int(rate * seconds(MEASURED_S) / (STEADY_TO - STEADY_FROM)))


def _job_drain(report: Report, stack: BenchStack) -> Drain:
    topics = stack.settings.topics

    def drain(count: int) -> float:
        with TopicEnds(stack.settings, topics.results) as ends:
            before = ends.count()
            with stack.paused():
                count = fill(stack.settings, topics.orders, count)
            used, threads = cpu_s(stack.stack), thread_cpu_s(stack.task_manager_pid)
            rate = steady_rate(ends.follow(before, count), count)
            report.note(f"CPU us a record: {cost_line(used, cpu_s(stack.stack), count)}")
            threads_now = thread_cpu_s(stack.task_manager_pid)
            report.note(f"TaskManager's threads: {cost_line(threads, threads_now, count)}")
            newest = ends.newest(SAMPLE)
        if not newest or not all(map(is_full, newest)):
            report.note("some records were not answered by the full model: this is no throughput")
        stack.forget_answers()
        return rate

    return drain


def _loop_drain(report: Report, stack: BenchStack, model: Path) -> Drain:
    settings_path = stack.stack.settings_path

    def drain(count: int) -> float:
        count = fill(stack.settings, LOOP_ORDERS, count)
        arguments = [str(settings_path), str(model), LOOP_ORDERS, LOOP_RESULTS, str(count)]
        with TopicEnds(stack.settings, LOOP_RESULTS) as ends, stack.paused():
            before = ends.count()
            used = cpu_s(stack.stack) | {"loop": _children_cpu_s()}
            loop = subprocess.Popen([sys.executable, "-m", "bench.kit.loop", *arguments])
            try:
                samples = ends.follow(before, count)
                loop.wait(timeout=30)
            finally:
                loop.kill()
                loop.wait()
        if loop.returncode != 0:
            raise BenchError(f"the hand-written loop ended with {loop.returncode}")
        after = cpu_s(stack.stack) | {"loop": _children_cpu_s()}
        report.note(f"CPU us a record: {cost_line(used, after, count)}")
        stack.forget_answers()
        return steady_rate(samples, count)

    return drain


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
