"""Sums over samples and the schedule of an open loop. Pure: no clock, no services."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

# Of a drain: before it readers fill their buffers, after it partitions run dry one by one.
STEADY_FROM, STEADY_TO = 0.2, 0.85


def quantile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all reach; raises ValueError without any."""
    if not ascending:
        raise ValueError("no values to take a quantile of: nothing was answered")
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def theil_sen(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs: a trend that single jumps do not move.

    Raises ValueError if there are no two points at different places.
    """
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    if not slopes:
        raise ValueError("a slope needs two points at different places")
    return median(slopes)


def steady_rate(samples: Sequence[tuple[float, int]], total: int) -> float:
    """Records a second in the middle of a drain of ``total`` records.

    ``samples`` are (s, records so far), ascending. Raises ValueError if they do not reach from
    STEADY_FROM to STEADY_TO of the total.
    """
    started_s = _reached_s(samples, STEADY_FROM * total)
    ended_s = _reached_s(samples, STEADY_TO * total)
    if ended_s <= started_s:
        raise ValueError(f"{total} records went by between two samples: take more records")
    return (STEADY_TO - STEADY_FROM) * total / (ended_s - started_s)


def _reached_s(samples: Sequence[tuple[float, int]], count: float) -> float:
    at = bisect_left(samples, count, key=lambda sample: sample[1])
    if at == 0 or at == len(samples):
        raise ValueError(f"no samples around {count:.0f} records: {len(samples)} samples in all")
    (before_s, before), (after_s, after) = samples[at - 1], samples[at]
    return before_s + (after_s - before_s) * (count - before) / (after - before)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Evenly spaced arrivals, fixed before the run: ``count`` of them, ``rate`` a second."""

    rate: float
    count: int

    @classmethod
    def lasting(cls, rate: float, seconds: float) -> Schedule:
        """As many arrivals as fit into that time, one at least."""
        return cls(rate, max(1, int(rate * seconds)))

    def due(self, elapsed_s: float) -> int:
        """How many arrivals lie at or before ``elapsed_s``."""
        return 0 if elapsed_s < 0 else min(self.count, int(elapsed_s * self.rate) + 1)

    def due_s(self, number: int) -> float:
        """When arrival ``number`` (from 0) is due, from the start."""
        return number / self.rate
