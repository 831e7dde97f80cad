"""Carries plain counts over into Flink's counters, on the operator's own thread.

Knows only the three calls of a metric group, so it needs no Flink to be tested.  Flink's gauges are
not used: Flink would call them from a thread that must not enter Python.  A counter that may go
down stands in for a gauge; Prometheus sees both as gauges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

EXPORT_EVERY_MS: Final = 1000
BUCKET_LABEL: Final = "le"  # what Prometheus calls the upper edge of a bucket


class CounterExport:
    """Counters under `tidemill.<scope>` of Flink's metric group ``group``.

    A count is named `metric`, or `metric.label.value`; docs/metrics.md has what Prometheus makes of
    these.  A name that is given exists from then on, also with 0.
    """

    def __init__(self, group: Any, scope: str) -> None:
        self._group = group.add_group("tidemill").add_group(scope)
        self._counters: dict[str, Any] = {}
        self._seen: dict[str, int] = {}

    def add(self, counts: Mapping[str, int]) -> None:
        """Add increments."""
        for name, count in counts.items():
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = self._make(name)
            if count:
                counter.inc(count)

    def totals(self, totals: Mapping[str, int]) -> None:
        """Bring each counter to its value in ``totals``."""
        self.add({name: total - self._seen.get(name, 0) for name, total in totals.items()})
        self._seen.update(totals)

    def _make(self, name: str) -> Any:
        metric, _, rest = name.partition(".")
        label, _, value = rest.partition(".")
        if not label:
            return self._group.counter(metric)
        group = self._group.add_group(metric).add_group(label, value)
        return group.counter("bucket" if label == BUCKET_LABEL else "rows")
