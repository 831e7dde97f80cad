"""Kolmogorov-Smirnov distance between reference and window, from cells: a proven bracket.

F is the reference's distribution function, G the window's, e the edges, d_j = F(e_j) - G(e_j).
D_lo = max |d_j| is attained at an edge, so D >= D_lo.  For x in [e_{j-1}, e_j) monotony gives
F(x) - G(x) <= F(e_j-) - G(e_{j-1})  and  G(x) - F(x) <= G(e_j) - F(e_{j-1}), hence

    D_lo <= D <= D_hi = max(D_lo, both over all j) <= D_lo + largest reference mass of an open cell.

A cell with a single value has no x between its ends and adds nothing, so a feature with at most K
distinct reference values is exact.  The bracket can't be narrower without more than the cells.

p-values: Kolmogorov's limit with Stephens' factor, D (sqrt(e) + 0.12 + 0.11/sqrt(e)) with
e = nm/(n+m), and by counting lattice paths for e < 20.  Both are conservative for tied values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from drift.cells import Floats, Ints

EXACT_BELOW: Final = 20  # effective rows; above, the limit is right to a few percent

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KsGrid:
    """A reference as the bracket wants it, float64 [features, cells] each.

    ``right`` is F(e_j); ``left`` is F(e_j-), or -1 in a cell of a single value; ``before`` is
    F(e_{j-1}), or 2 in such a cell: both then lose every comparison.
    """

    right: Reals
    left: Reals
    before: Reals

    @classmethod
    def of(cls, counts: ArrayLike, at_edge: ArrayLike, single: ArrayLike) -> KsGrid:
        """From reference counts, counts of values equal to the right edge, and single-valued cells.

        All [features, cells]; counts may be weighted (float).  A feature without finite reference
        rows has F = 0 and is not to be judged.
        """
        cells = np.atleast_2d(np.asarray(counts, np.float64))
        edge = np.atleast_2d(np.asarray(at_edge, np.float64))
        alone = np.atleast_2d(np.asarray(single, np.bool_))
        running = np.cumsum(cells, axis=1)
        total = np.maximum(running[:, -1:], np.finfo(np.float64).tiny)
        right = running / total
        left = np.where(alone, -1.0, (running - edge) / total)
        before = np.where(alone, 2.0, (running - cells) / total)
        return cls(right, left, before)


@dataclass(frozen=True, slots=True)
class KsBracket:
    """[D_lo, D_hi] of every feature, float64 [features].

    ``at`` is the cell whose right edge has D_lo.  ``sign`` is +1 if the window lies higher there (F >
    G: fewer small values than the reference has), -1 if lower, 0 without any distance.
    """

    lo: Reals
    hi: Reals
    at: Ints
    sign: Ints


def bracket(grid: KsGrid, cur: ArrayLike) -> KsBracket:
    """Bracket of D for window counts ``cur`` int64 [features, cells]; a window without rows has G = 0."""
    running = np.cumsum(np.atleast_2d(np.asarray(cur)), axis=1)
    total = np.maximum(running[:, -1:], 1)
    g = running / total  # not times 1/total: equal histograms must have a distance of exactly 0
    d = grid.right - g
    above, below = d.argmax(axis=1), d.argmin(axis=1)
    rows = np.arange(len(d))
    up, down = d[rows, above], -d[rows, below]
    lo = np.maximum(np.maximum(up, down), 0.0)
    gap = np.subtract(g, grid.before, out=d).max(axis=1)
    gap = np.maximum(gap, grid.left[:, 0])
    np.subtract(grid.left[:, 1:], g[:, :-1], out=d[:, :-1])
    gap = np.maximum(gap, d[:, :-1].max(axis=1, initial=-1.0))
    at = np.where(up >= down, above, below).astype(np.int64)
    sign = np.where(lo > 0, np.where(up >= down, 1, -1), 0).astype(np.int64)
    return KsBracket(lo, np.minimum(np.maximum(lo, gap), 1.0), at, sign)


def exact(ref: ArrayLike, cur: ArrayLike) -> float:
    """D of two samples of finite values, ties included; raises ValueError if one is empty."""
    a, b = np.sort(np.asarray(ref)), np.sort(np.asarray(cur))
    if not a.size or not b.size:
        raise ValueError("an empty sample has no distribution: judge the number of rows first")
    both = np.concatenate((a, b))
    f = np.searchsorted(a, both, side="right") / a.size
    g = np.searchsorted(b, both, side="right") / b.size
    return float(np.abs(f - g).max())


def p_values(d: ArrayLike, n: ArrayLike, m: ArrayLike) -> Reals:
    """Chance of at least ``d`` without drift, by the limit; for effective rows of 20 and more."""
    rows, refs = np.asarray(n, np.float64), np.asarray(m, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(rows * refs / (rows + refs))
        x = (root + 0.12 + 0.11 / root) * np.asarray(d, np.float64)
    return np.asarray(special.kolmogorov(np.where(np.isfinite(x), x, 0.0)))


def p_value(d: float, n: int, m: int) -> float:
    """Chance of at least ``d`` for ``n`` and ``m`` rows: exact for few rows, else by the limit."""
    if n < 1 or m < 1:
        raise ValueError(f"{n} and {m} rows: an empty sample has no distance")
    if n * m >= EXACT_BELOW * (n + m):
        return float(p_values(d, n, m))
    return _path_chance(d, *sorted((n, m)))


def _path_chance(d: float, n: int, m: int) -> float:
    """Share of the lattice paths (0,0)-(n,m) that reach |i/n - j/m| >= d; n <= m.

    Row by row: paths still inside, as a share of all that go on from there, so nothing overflows.
    """
    lcm = int(np.lcm(n, m))
    reach = round(d * lcm)
    if reach <= 0:
        return 1.0
    j = np.arange(m + 1)
    inside: NDArray[Any] = np.where(j * (lcm // m) < reach, 1.0, 0.0)
    log_scale = 0.0
    for i in range(1, n + 1):
        allowed = np.abs(i * (lcm // n) - j * (lcm // m)) < reach
        # allowed cells of a row are one run, so a running sum never carries over a gap
        inside = np.where(allowed, np.cumsum(np.where(allowed, inside, 0.0)), 0.0)
        top = float(inside.max())
        if top == 0.0:
            return 1.0
        inside /= top
        log_scale += float(np.log(top))
    if inside[m] <= 0.0:
        return 1.0
    all_paths = special.gammaln(n + m + 1) - special.gammaln(n + 1) - special.gammaln(m + 1)
    stay = float(np.exp(np.log(inside[m]) + log_scale - all_paths))
    return min(max(1.0 - stay, 0.0), 1.0)


def location(edges: Floats, at: int) -> float:
    """The value at which D_lo is attained: the right edge of cell ``at``, +inf for the last."""
    return float(edges[at]) if at < len(edges) else float("inf")
