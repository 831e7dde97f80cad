"""What the scoring agent counts: plain integers, exported by the lane to Flink's metrics.

Python threads must never touch Java objects, so the agent counts here and the operator's own
thread carries the differences over.  Metric names are in `tidemill`'s docs/metrics.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from operators.answers import Verdict
from operators.records import LaneFrame

LATENCY_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
BATCH_BOUNDS_ROWS = (1, 8, 16, 32, 64, 128, 256)


@dataclass(slots=True)
class ScoringStats:
    """Counters only ever grow.  Written by the agent's threads, read by the operator's."""

    by_status: Counter[str] = field(default_factory=Counter)
    by_tier: Counter[str] = field(default_factory=Counter)
    by_reason: Counter[str] = field(default_factory=Counter)
    latency: Counter[str] = field(default_factory=Counter)
    queue: Counter[str] = field(default_factory=Counter)
    service: Counter[str] = field(default_factory=Counter)
    batch_rows: Counter[str] = field(default_factory=Counter)
    in_sla: int = 0
    batches: int = 0
    link_drops: int = 0
    redis_failures: int = 0
    kept_older: int = 0

    def answered(
        self, rows: Sequence[int], frame: LaneFrame, verdict: Verdict, done_ms: int
    ) -> None:
        """Count the rows of one group, answered at ``done_ms``."""
        count = len(rows)
        self.by_status[verdict.status] += count
        self.by_tier[verdict.tier] += count
        if verdict.reason is not None:
            self.by_reason[verdict.reason] += count
        took_ms = done_ms - frame.first_arrival_ms
        self.latency[_label(LATENCY_BOUNDS_MS, took_ms)] += count
        self.queue[_label(LATENCY_BOUNDS_MS, verdict.queue_ms)] += count
        self.service[_label(LATENCY_BOUNDS_MS, verdict.service_ms)] += count
        if verdict.status == "ok":
            deadlines = frame.deadlines
            self.in_sla += sum(done_ms <= deadlines[row] for row in rows)

    def sent(self, rows: int) -> None:
        """Count one batch of ``rows`` sent to the worker."""
        self.batches += 1
        self.batch_rows[_label(BATCH_BOUNDS_ROWS, rows)] += 1

    def totals(self) -> dict[str, int]:
        """Every counter by its metric name, labels joined with dots."""
        flat = {
            "in_sla": self.in_sla,
            "batches": self.batches,
            "worker_link_drops": self.link_drops,
            "redis_failures": self.redis_failures,
            "answers_kept": self.kept_older,
        }
        groups = {
            "status": self.by_status, "tier": self.by_tier, "reason": self.by_reason,
            "latency_ms_le": self.latency, "queue_ms_le": self.queue,
            "service_ms_le": self.service, "batch_rows_le": self.batch_rows,
        }  # fmt: skip
        for group, counter in groups.items():
            flat.update({f"{group}.{label}": count for label, count in list(counter.items())})
        return flat


def _label(bounds: Sequence[int], value: float) -> str:
    at = bisect_left(bounds, value)
    return str(bounds[at]) if at < len(bounds) else "inf"
