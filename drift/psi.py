"""Population stability index on counts, and what noise alone makes of it.

PSI = sum over bins of (q - p) ln(q / p), in nats, p and q the shares of reference and window.  It is
symmetric and every bin adds at least 0.  Shares are smoothed with a pseudo-count of 0.5 a bin (it
stays calibrated down to 5 rows a bin; a floor like 1e-4 doesn't).  Bins empty on both sides are left
out before smoothing.

Without drift PSI / (1/n + 1/m) follows chi-square with B-1 degrees of freedom (Yurdakul 2018); with
a true value t it follows the non-central one with parameter t / (1/n + 1/m).  Rows must count as
independent: give the effective n (see `drift.dispersion`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

PSEUDO_COUNT: Final = 0.5

Reals = NDArray[np.float64]


def contributions(ref: ArrayLike, cur: ArrayLike, pseudo_count: float = PSEUDO_COUNT) -> Reals:
    """What each bin adds: nats, float64, same shape as the counts ``ref`` and ``cur`` [..., bins].

    Without a pseudo-count a bin empty on one side adds infinity.  Raises ValueError if the shapes
    differ or a side has no rows at all: an empty window has no PSI.
    """
    r, c = np.asarray(ref, np.float64), np.asarray(cur, np.float64)
    if r.shape != c.shape:
        raise ValueError(f"{r.shape} bins of the reference, {c.shape} of the window")
    if not (r.sum(axis=-1).all() and c.sum(axis=-1).all()):
        raise ValueError("a side without rows has no PSI: judge the number of rows first")
    kept = (r > 0) | (c > 0)
    bins = kept.sum(axis=-1, keepdims=True)
    p = (r + pseudo_count * kept) / (r.sum(axis=-1, keepdims=True) + pseudo_count * bins)
    q = (c + pseudo_count * kept) / (c.sum(axis=-1, keepdims=True) + pseudo_count * bins)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = (q - p) * np.log(q / p)
    return np.asarray(np.where(kept, parts, 0.0))


def psi(ref: ArrayLike, cur: ArrayLike, pseudo_count: float = PSEUDO_COUNT) -> float:
    """PSI of two histograms with the same bins, nats >= 0; raises as `contributions` does."""
    return float(contributions(ref, cur, pseudo_count).sum())


def aligned(ref: Mapping[str, int], cur: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """Counts of both sides over the union of their categories: one that is gone counts as well."""
    names = sorted(ref.keys() | cur.keys())
    return [ref.get(name, 0) for name in names], [cur.get(name, 0) for name in names]


def kept_bins(ref: ArrayLike, cur: ArrayLike) -> NDArray[np.int64]:
    """Number of bins that aren't empty on both sides: B of the chi-square, int64 [...]."""
    kept = (np.asarray(ref) > 0) | (np.asarray(cur) > 0)
    return np.asarray(kept.sum(axis=-1), np.int64)


def scale(n: ArrayLike, m: ArrayLike) -> Reals:
    """1/n + 1/m of ``n`` window and ``m`` reference rows; infinite for an empty side."""
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.asarray(n, np.float64) + 1.0 / np.asarray(m, np.float64))


def bias(n: ArrayLike, m: ArrayLike, bins: ArrayLike) -> Reals:
    """Mean PSI without drift: (B-1)(1/n + 1/m)."""
    return np.asarray((np.asarray(bins, np.float64) - 1.0) * scale(n, m))


def p_value(value: ArrayLike, n: ArrayLike, m: ArrayLike, bins: ArrayLike) -> Reals:
    """Chance of at least this PSI without drift; 1 with a single bin.  0.0 is a legal result."""
    df = np.asarray(bins, np.float64) - 1.0
    x = np.asarray(value, np.float64) / scale(n, m)
    return np.asarray(np.where(df > 0, special.chdtrc(np.maximum(df, 1.0), x), 1.0))


def quantiles(bins: ArrayLike, alpha: float) -> Reals:
    """Upper ``alpha`` quantile of chi-square with ``bins`` - 1 degrees of freedom; 0 for one bin."""
    whole = np.asarray(bins, np.int64)
    return np.asarray(_quantile_table(alpha, int(whole.max(initial=1)))[whole])


@lru_cache(maxsize=32)
def _quantile_table(alpha: float, bins: int) -> Reals:
    # the same few are asked for in every window, and one costs as much as a feature's KS
    freedom = np.maximum(np.arange(bins + 1) - 1.0, 0.0)
    table = special.chdtri(np.maximum(freedom, 1.0), alpha) * (freedom > 0)
    table.flags.writeable = False
    return np.asarray(table)


def critical(n: ArrayLike, m: ArrayLike, bins: ArrayLike, alpha: float) -> Reals:
    """PSI that noise exceeds with chance ``alpha``; 0 with a single bin."""
    return np.asarray(quantiles(bins, alpha) * scale(n, m))


def lower_bound(
    value: ArrayLike, n: ArrayLike, m: ArrayLike, bins: ArrayLike, level: float = 0.95
) -> Reals:
    """Value that the true PSI exceeds with confidence ``level``; 0 if noise may explain all."""
    unit = scale(n, m)
    df = np.asarray(bins, np.float64) - 1.0
    x = np.asarray(value, np.float64) / unit
    possible = (df > 0) & np.isfinite(x) & (special.chdtr(np.maximum(df, 1.0), x) > level)
    safe = np.where(possible, x, 1.0)
    bound = special.chndtrinc(safe, np.maximum(df, 1.0), level) * unit
    return np.asarray(np.where(possible, np.minimum(bound, value), 0.0))


def min_rows(
    limit: float, m: ArrayLike, bins: ArrayLike, alpha: float, dispersion: ArrayLike = 1.0
) -> Reals:
    """Smallest window whose noise stays under ``limit`` with chance 1 - ``alpha``, float64 [...].

    ``alpha`` is that of one feature: the family's divided by the number of features.  ``dispersion``
    is rows an independent row.  Infinite if the reference alone is too small.
    """
    noise = quantiles(np.maximum(np.asarray(bins, np.int64), 2), alpha)
    with np.errstate(divide="ignore"):
        room = limit / noise - 1.0 / np.asarray(m, np.float64)
        rows = np.where(room > 0, np.ceil(np.asarray(dispersion) / room), np.inf)
    return np.asarray(rows)


def binned_ks_limit(value: float) -> float:
    """Largest KS distance on the same bins that a PSI allows: sqrt(PSI)/2 (Pinsker, twice)."""
    return math.sqrt(max(value, 0.0)) / 2.0


def top_bins(parts: ArrayLike, count: int) -> list[int]:
    """Indices of the bins that add most, the largest first; equal ones in order."""
    return [int(i) for i in np.argsort(-np.asarray(parts), kind="stable")[:count]]
