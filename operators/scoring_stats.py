"""What the scoring agent counts: plain integers, exported by the lane to Flink's metrics.

Python threads must never touch Java objects, so the agent counts here and the operator's own
thread carries the totals over.  docs/metrics.md has every name with its meaning.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from operators.answers import Verdict
from operators.flink_metrics import BUCKET_LABEL
from operators.records import LaneFrame
from tidemill.contracts import DeadLetterReason, Status, Tier

LATENCY_EDGES_S: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0,
)  # fmt: skip
BATCH_EDGES_ROWS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
LANE_REASONS: Final = (DeadLetterReason.MODEL_ERROR, DeadLetterReason.NON_FINITE_OUTPUT)


class Buckets:
    """A histogram; the last count is everything above the last edge."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = edges
        self._labels = (*(f"{edge:g}" for edge in edges), "+Inf")
        self._counts = [0] * (len(edges) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Count ``value`` so many times."""
        self._counts[bisect_left(self._edges, value)] += times

    def totals(self, metric: str) -> Iterator[tuple[str, int]]:
        """Cumulative counts by their names for export, as Prometheus wants its buckets."""
        for label, count in zip(self._labels, accumulate(self._counts), strict=True):
            yield f"{metric}.{BUCKET_LABEL}.{label}", count


def _latency() -> Buckets:
    return Buckets(LATENCY_EDGES_S)


def _zeros(names: Iterable[str]) -> Counter[str]:
    return Counter(dict.fromkeys(names, 0))


@dataclass(slots=True)
class ScoringStats:
    """Counters only ever grow.  Written by the agent's threads, read by the operator's."""

    by_status: Counter[str] = field(default_factory=lambda: _zeros(Status))
    by_tier: Counter[str] = field(default_factory=lambda: _zeros(Tier))
    by_reason: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=lambda: _zeros(LANE_REASONS))
    latency: Buckets = field(default_factory=_latency)
    queue: Buckets = field(default_factory=_latency)
    service: Buckets = field(default_factory=_latency)
    delivery: Buckets = field(default_factory=_latency)
    batch_rows: Buckets = field(default_factory=lambda: Buckets(BATCH_EDGES_ROWS))
    in_sla: int = 0
    batches: int = 0
    link_drops: int = 0
    redis_failures: int = 0
    kept_older: int = 0
    owed_rows: int = 0

    def answered(
        self, rows: Sequence[int], frame: LaneFrame, verdict: Verdict, done_ms: int
    ) -> None:
        """Count the rows of one group, answered at ``done_ms``."""
        count = len(rows)
        self.by_status[verdict.status] += count
        self.by_tier[verdict.tier] += count
        if verdict.reason is not None:
            self.by_reason[verdict.reason] += count
        self.latency.observe((done_ms - frame.first_arrival_ms) / 1000, count)
        if verdict.tier != Tier.NONE:
            self.queue.observe(verdict.queue_ms / 1000, count)
        if verdict.tier == Tier.FULL:
            self.service.observe(verdict.service_ms / 1000, count)
        if verdict.status == Status.OK:
            deadlines = frame.deadlines
            self.in_sla += sum(done_ms <= deadlines[row] for row in rows)

    def dead_lettered(self, reason: str, rows: int) -> None:
        """Count rows that the lane gave up."""
        self.dead[reason] += rows

    def delivered(self, rows: int, took_ms: float) -> None:
        """Count rows that Redis took together."""
        self.delivery.observe(took_ms / 1000, rows)

    def owed(self, rows: int) -> None:
        """Count rows that Redis did not take and the relay will deliver."""
        self.owed_rows += rows

    def sent(self, rows: int) -> None:
        """Count one batch of ``rows`` sent to the worker."""
        self.batches += 1
        self.batch_rows.observe(rows)

    def totals(self) -> dict[str, int]:
        """Every count by its name for `flink_metrics.CounterExport`."""
        flat = {
            "in_sla_rows": self.in_sla,
            "batches": self.batches,
            "worker_link_drops": self.link_drops,
            "redis_failures": self.redis_failures,
            "kept_answers": self.kept_older,
            "owed_rows": self.owed_rows,
        }
        for metric, counter in (
            ("answers.status", self.by_status),
            ("answers.tier", self.by_tier),
            ("answers.reason", self.by_reason),
            ("dead_letters.reason", self.dead),
        ):
            flat.update({f"{metric}.{label}": count for label, count in list(counter.items())})
        for metric, buckets in (
            ("latency_seconds", self.latency),
            ("queue_seconds", self.queue),
            ("service_seconds", self.service),
            ("delivery_seconds", self.delivery),
            ("batch_rows", self.batch_rows),
        ):
            flat.update(buckets.totals(metric))
        return flat
