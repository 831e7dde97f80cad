"""Metrics of a worker process: names, units, and cheap counting on the model's thread.

A scrape reads the counters from another thread; a histogram observation is one bisect and two adds.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from models.progress import Progress

PREFIX = "tidemill_worker_"
ROW_EDGES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
SECOND_EDGES = tuple(e * 10.0**-p for p in (5, 4, 3, 2, 1, 0) for e in (1.0, 2.0, 5.0))


class Histogram:
    """Counts per upper edge; the last count is everything above."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def family(self, name: str, words: str) -> HistogramMetricFamily:
        """As Prometheus wants it: cumulative."""
        running, buckets = 0, []
        for edge, count in zip((*map(str, self.edges), "+Inf"), self.counts, strict=True):
            running += count
            buckets.append((edge, float(running)))
        return HistogramMetricFamily(name, words, buckets=buckets, sum_value=self.total)


class WorkerMetrics(Collector):
    """Everything that a worker counts. The model's thread writes, a scrape reads."""

    def __init__(self, progress: Progress, restarts: int = 0) -> None:
        self.progress = progress
        self.restarts = restarts
        self.batch_rows = Histogram(ROW_EDGES)
        self.service_s = Histogram(SECOND_EDGES)
        self.queue_s = Histogram(SECOND_EDGES)
        self.bad_rows = 0
        self.failed: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    def count_failed(self, reason: str) -> None:
        """One SCORE frame was answered with FAIL."""
        self.failed[reason] = self.failed.get(reason, 0) + 1

    def count_refused(self, reason: str) -> None:
        """One connection was dropped or not let in."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """All families, for a Prometheus registry."""
        at = self.progress
        yield InfoMetricFamily(
            PREFIX + "model", "Model served", {"name": at.model, "version": at.version}
        )
        for name, words, value in (
            ("ready", "1 once warm and checked", float(at.ready)),
            ("connections", "Open connections of agents", float(at.connections)),
            ("resident_bytes", "Resident memory of the process", float(resident_bytes())),
        ):
            yield GaugeMetricFamily(PREFIX + name, words, value)
        for name, words, count in (
            ("rows", "Rows scored", at.rows),
            ("batches", "Batches computed", at.batches),
            ("bad_rows", "Rows whose outputs were not finite", self.bad_rows),
            ("restarts", "Restarts by the supervisor", self.restarts),
        ):
            yield CounterMetricFamily(PREFIX + name, words, float(count))
        for name, words, counts in (
            ("failed_frames", "Frames answered with FAIL", self.failed),
            ("refused_connections", "Connections dropped or not let in", self.refused),
        ):
            family = CounterMetricFamily(PREFIX + name, words, labels=["reason"])
            for reason, count in sorted(counts.items()):
                family.add_metric([reason], float(count))
            yield family
        yield self.batch_rows.family(PREFIX + "batch_rows", "Rows of a batch, before padding")
        yield self.service_s.family(PREFIX + "service_seconds", "Model time of a batch")
        yield self.queue_s.family(
            PREFIX + "queue_seconds", "Wait of a frame in the worker, at most"
        )


def resident_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def render(metrics: WorkerMetrics) -> bytes:
    """The text of /metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    return generate_latest(registry)
