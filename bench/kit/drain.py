"""Drains of a backlog: by the scoring job, by the job and the relay, by a hand-written loop."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.kit.answers import is_full
from bench.kit.backlog import TopicEnds, fill, follow
from bench.kit.cpu import cost_line, cpu_s, thread_cpu_s
from bench.kit.errors import BenchError
from bench.kit.stack import BenchStack
from bench.kit.stats import steady_rate
from bench.report import Report
from operators.relay_loop import relay_group

LOOP_ORDERS, LOOP_RESULTS = "bench.loop.orders", "bench.loop.results"
_SAMPLE = 2000


class JobDrain:
    """The job works off what was produced while it stood still, warm."""

    def __init__(self, report: Report, stack: BenchStack) -> None:
        self._report = report
        self._stack = stack
        self._topics = stack.settings.topics

    def results(self, count: int) -> float:
        """Records a second, counted on the result topic."""
        stack, topics = self._stack, self._topics
        with TopicEnds(stack.settings, topics.results) as ends:
            before = ends.count()
            with stack.paused():
                count = fill(stack.settings, topics.orders, count)
                costs = self._costs()
            samples = follow(ends.count, before, count)
            self._tell(costs, count)
            newest = ends.newest(_SAMPLE)
        if not newest or not all(map(is_full, newest)):
            self._report.note("not all records were scored by the full model: no throughput")
        stack.forget_answers()
        return steady_rate(samples, count)

    def relayed(self, count: int) -> float:
        """Answers a second, counted in Redis, with the relay beside a job in strict mode."""
        stack = self._stack
        with TopicEnds(stack.settings, self._topics.results) as ends:
            ends.skip(relay_group(stack.settings))
        stack.forget_answers()
        with stack.paused():
            stack.start_relay()
            count = fill(stack.settings, self._topics.orders, count)
            costs = self._costs()
        samples = follow(stack.answers, 0, count)
        self._tell(costs, count)
        return steady_rate(samples, count)

    def _costs(self) -> tuple[dict[str, float], dict[str, float]]:
        """CPU so far by process, and by thread of the TaskManager."""
        return cpu_s(self._stack.stack), thread_cpu_s(self._stack.task_manager_pid)

    def _tell(self, before: tuple[dict[str, float], dict[str, float]], count: int) -> None:
        processes, threads = self._costs()
        report = self._report
        report.note(f"CPU us a record: {cost_line(before[0], processes, count)}")
        report.note(f"TaskManager's threads: {cost_line(before[1], threads, count)}")


class LoopDrain:
    """`bench.kit.loop` works off records of its own, while the job stands still."""

    def __init__(self, report: Report, stack: BenchStack, model: Path) -> None:
        self._report = report
        self._stack = stack
        self._model = model
        stack.make_topic(LOOP_ORDERS)
        stack.make_topic(LOOP_RESULTS)

    def results(self, count: int) -> float:
        """Records a second, counted on its result topic."""
        stack = self._stack
        count = fill(stack.settings, LOOP_ORDERS, count)
        with TopicEnds(stack.settings, LOOP_RESULTS) as ends, stack.paused():
            before, used = ends.count(), self._cpu_s()
            with self._loop(count):
                samples = follow(ends.count, before, count)
        self._report.note(f"CPU us a record: {cost_line(used, self._cpu_s(), count)}")
        stack.forget_answers()
        return steady_rate(samples, count)

    @contextmanager
    def _loop(self, count: int) -> Iterator[None]:
        settings = str(self._stack.stack.settings_path)
        arguments = [settings, str(self._model), LOOP_ORDERS, LOOP_RESULTS, str(count)]
        loop = subprocess.Popen([sys.executable, "-m", "bench.kit.loop", *arguments])
        try:
            yield
            loop.wait(timeout=30)
        finally:
            loop.kill()
            loop.wait()
        if loop.returncode != 0:
            raise BenchError(f"the hand-written loop ended with {loop.returncode}")

    def _cpu_s(self) -> dict[str, float]:
        """The loop is a child of this process, its start (torch, 2 s) included."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cpu_s(self._stack.stack) | {"loop": used.ru_utime + used.ru_stime}
