"""Counts, from outside, what a fault under steady traffic does to a job.

Contract: orders go in at a steady rate from a thread of their own; half-way the fault is injected;
at the end every order is looked for in Redis, on the result topic and among the dead letters.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.deployment import Deployment
from tests.support.models import NO_TRAP
from tests.support.views import Views

Inject = Callable[[], None]


@dataclass(frozen=True)
class Tally:
    """What became of the orders of one run, by task.

    ``lost``: neither an answer in Redis nor a dead letter.  ``unlogged``: not on the result topic.
    ``repeated``: more than one record there; ``differing``: two that differ, or one that differs
    from what the caller got.
    """

    fault: str
    sent: int
    answers: dict[str, dict[str, Any]]
    lost: list[str]
    unlogged: list[str]
    repeated: list[str]
    differing: list[str]
    pending: int
    """Result records that left their delivery to the relay."""

    @property
    def tiers(self) -> Counter[str]:
        """Answers by status and tier; what is not ok has no tier."""
        return Counter(
            a["tier"] if a["status"] == "ok" else a["status"] for a in self.answers.values()
        )

    @property
    def overdue(self) -> list[str]:
        """Tasks whose answer was made after its deadline."""
        return [t for t, a in self.answers.items() if a["done_ms"] > a["deadline_ms"]]

    def row(self) -> str:
        """One line of the table of faults."""
        tiers = " ".join(f"{name} {count}" for name, count in self.tiers.most_common())
        return (
            f"{self.fault:34} {self.sent:5} {len(self.answers):8} {len(self.lost):4} "
            f"{len(self.repeated):8} {len(self.differing):9} {self.pending:7}  {tiers}"
        )


HEAD = (
    f"{'fault':34} {'sent':>5} {'answered':>8} {'lost':>4} "
    f"{'repeated':>8} {'differing':>9} {'pending':>7}  answers by tier"
)


@dataclass
class Traffic:
    """``count`` orders at ``rate`` a second; ``half`` is set when half of them are on their way."""

    job: Deployment
    name: str
    count: int
    rate: float
    trap_of: Callable[[int], int] = lambda _: NO_TRAP
    half: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.tasks = [f"{self.name}-{number}" for number in range(self.count)]
        self._thread = threading.Thread(target=self._send, name="traffic", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the broker has all."""
        self._thread.join()
        self.job.orders.flush(120)

    def _send(self) -> None:
        start = time.monotonic()
        for number, task in enumerate(self.tasks):
            time.sleep(max(0.0, start + number / self.rate - time.monotonic()))
            self.job.orders.send(task, a=float(number), trap=self.trap_of(number))
            if number == self.count // 2:
                self.half.set()


def under_fault(
    job: Deployment,
    views: Views,
    fault: str,
    inject: Inject,
    *,
    count: int = 600,
    rate: float = 150.0,
    trap_of: Callable[[int], int] = lambda _: NO_TRAP,
    drain_s: float = 90.0,
) -> Tally:
    """Send, ``inject`` half-way, drain and count; ``inject`` may block while traffic goes on."""
    name = f"{re.sub('[^a-z0-9]+', '-', fault.lower())}-{time.time_ns() % 10**9}"
    traffic = Traffic(job, name, count, rate, trap_of)
    traffic.start()
    traffic.half.wait()
    inject()
    traffic.join()
    return _count(job, views, fault, traffic.tasks, drain_s)


def _count(job: Deployment, views: Views, fault: str, tasks: list[str], drain_s: float) -> Tally:
    wanted = set(tasks)
    end = time.monotonic() + drain_s
    while time.monotonic() < end:
        views.results.read()
        logged = {record.task for record in views.results.records}
        if wanted <= logged and len(job.answers_now(tasks)) == len(tasks):
            break
    views.results.read(1.0)  # what is doubled comes last
    views.dlq.read()
    answers = job.answers_now(tasks)
    records: defaultdict[str, list[bytes]] = defaultdict(list)
    pending = 0
    for record in views.results.records:
        if record.task in wanted and record.value is not None:
            records[record.task].append(record.value)
            pending += record.header("callback") == b"pending"
    dead = {(record.header("task-id") or b"").decode() for record in views.dlq.records}
    return Tally(
        fault,
        len(tasks),
        answers,
        lost=[task for task in tasks if task not in answers and task not in dead],
        unlogged=[task for task in tasks if task not in records],
        repeated=[task for task, values in records.items() if len(values) > 1],
        differing=[
            task for task, values in records.items() if len({*values, *_values(job, task)}) > 1
        ],
        pending=pending,
    )


def _values(job: Deployment, task: str) -> list[bytes]:
    value = job.redis.get(job.key(task))
    return [] if value is None else [value]
