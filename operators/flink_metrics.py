"""Carries plain counts over into Flink's counters, once a second, on the operator's own thread.

Knows only the three calls of a metric group, so it needs no Flink to be tested.  Gauges are not
used: Flink would call them from a thread that must not enter Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

EXPORT_EVERY_MS = 1000


class CounterExport:
    """`group` is Flink's metric group; names with a dot become a label: `reason.tombstone`."""

    def __init__(self, group: Any, scope: str) -> None:
        self._group = group.add_group("tidemill", scope)
        self._counters: dict[str, Any] = {}
        self._waiting: Counter[str] = Counter()
        self._seen: dict[str, int] = {}
        self._next_ms = 0

    def add(self, counts: Mapping[str, int], now_ms: int) -> None:
        """Add increments; they reach Flink at the next export."""
        self._waiting.update(counts)
        self._export(now_ms)

    def due(self, now_ms: int) -> bool:
        """Whether `totals` should be called now."""
        return now_ms >= self._next_ms

    def totals(self, totals: Mapping[str, int], now_ms: int) -> None:
        """Take counters that only grow; their differences since the last call are added."""
        for name, total in totals.items():
            self._waiting[name] += total - self._seen.get(name, 0)
            self._seen[name] = total
        self._export(now_ms)

    def _export(self, now_ms: int) -> None:
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + EXPORT_EVERY_MS
        for name, count in self._waiting.items():
            if count:
                self._counter(name).inc(count)
        self._waiting.clear()

    def _counter(self, name: str) -> Any:
        counter = self._counters.get(name)
        if counter is None:
            metric, _, label = name.partition(".")
            group = self._group.add_group(metric, label) if label else self._group
            counter = self._counters[name] = group.counter("rows" if label else metric)
        return counter
