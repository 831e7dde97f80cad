"""Percentiles, as the live view and the check at the end count them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float | None:
    """The least value that at least ``share`` of ``values`` do not exceed; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    """p50 and p99, rounded to 0.01."""
    p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
    return None if p50 is None else round(p50, 2), None if p99 is None else round(p99, 2)
