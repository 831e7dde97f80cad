"""Cells of a feature: where their edges lie, and in which cell a value falls.

Cell j is right-closed, (e[j-1], e[j]]; the outer cells reach to -inf and +inf.  Edges are values of
the reference (inverted CDF), so no interpolated edge falls between two values that occur.  A value
that holds at least 1/K of the reference is an atom: it gets the edges just below and at itself, and
with them a cell of its own.  If the reference has at most K distinct values, all are atoms, and the
histogram loses nothing of what a Kolmogorov-Smirnov distance needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Parted:
    """Values parted into those that have a place on the line and those that don't."""

    finite: Floats
    missing: int
    pos_inf: int
    neg_inf: int

    @property
    def rows(self) -> int:
        """All values, the missing ones too: shares are of these."""
        return self.finite.size + self.missing + self.pos_inf + self.neg_inf


def part(values: ArrayLike) -> Parted:
    """Part 1-d ``values``; NaN means missing.  The order of the finite ones is kept."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    return Parted(
        finite=array[np.isfinite(array)],
        missing=int(np.isnan(array).sum()),
        pos_inf=int(np.isposinf(array).sum()),
        neg_inf=int(np.isneginf(array).sum()),
    )


def quantile_edges(ordered: Floats, cells: int) -> Floats:
    """Edges of up to ``cells`` cells of near-equal mass, taken from ``ordered`` (sorted, finite).

    Equal quantiles collapse, and an edge at the largest value is left out: above it is nothing.
    """
    n = ordered.size
    if n == 0:
        return ordered
    ranks = -(-np.arange(1, cells) * n // cells) - 1  # ceil(j n / cells) - 1: inverted CDF
    edges: Floats = np.unique(ordered[np.maximum(ranks, 0)])
    inner: Floats = edges[edges < ordered[-1]]
    return inner


def atoms(ordered: Floats, cells: int) -> Floats:
    """Values that get a cell of their own: mass at least 1/cells, or all if there are few."""
    if ordered.size == 0:
        return ordered
    values, counts = np.unique(ordered, return_counts=True)
    return values if values.size <= cells else values[counts * cells >= ordered.size]


def cell_edges(ordered: Floats, cells: int) -> Floats:
    """Edges of the fine histogram, strictly rising, in the dtype of ``ordered`` (sorted, finite).

    At most 2 * ``cells``: an atom takes two, and so does a lighter tie that would take its cell over
    1/cells of the mass.  An atom at the lowest float has no edge below.
    """
    if ordered.size == 0:
        return ordered
    own = atoms(ordered, cells)
    edges = np.unique(np.concatenate((quantile_edges(ordered, cells), _below(own), own)))
    heavy = cell_counts(edges, ordered)[:-1] > -(-ordered.size // cells)
    edges = np.unique(np.concatenate((edges, _below(edges[heavy]))))
    finite: Floats = edges[np.isfinite(edges)]
    return finite


def _below(values: Floats) -> Floats:
    """The next lower number of each value; -inf below the lowest."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.nextafter(values, np.array(-np.inf, values.dtype)))


def cell_index(edges: ArrayLike, values: ArrayLike) -> Ints:
    """Cell of each value: the number of edges strictly below it.

    The comparison is that of the machine's numbers: an edge 0.30000000000000004 is above 0.3.
    """
    return np.searchsorted(np.asarray(edges), np.asarray(values), side="left").astype(np.int64)


def cell_counts(edges: ArrayLike, ordered: Floats) -> Ints:
    """How many of ``ordered`` (sorted, finite) fall in each of the len(edges) + 1 cells."""
    below = np.searchsorted(ordered, np.asarray(edges), side="right")
    return np.diff(below, prepend=0, append=ordered.size).astype(np.int64)


def at_edge_counts(edges: Floats, ordered: Floats) -> Ints:
    """How many of ``ordered`` (sorted, finite) equal the right edge of each cell; the last has none."""
    right = np.searchsorted(ordered, edges, side="right")
    left = np.searchsorted(ordered, edges, side="left")
    return np.append(right - left, 0).astype(np.int64)


def single_valued(edges: Floats) -> NDArray[np.bool_]:
    """Cells with at most one value in them, their right edge: nothing lies between their ends."""
    top = np.finfo(edges.dtype).max
    ends = np.concatenate(([-np.inf], edges, [top])).astype(edges.dtype)
    with np.errstate(over="ignore", under="ignore"):
        after = np.nextafter(ends[:-1], np.array(np.inf, edges.dtype))
    return np.asarray(after >= ends[1:], np.bool_)


def group_starts(counts: ArrayLike, own: ArrayLike, bins: int) -> Ints:
    """First cells of the coarse groups of PSI: about ``bins`` of near-equal mass.

    ``counts`` [cells] of the reference, ``own`` [cells] marks cells of a single value.  One of these
    with at least 1/bins of the mass is a group by itself.  Cells without mass beside such a group
    are a group too: values that newly come there must not hide in their neighbour.
    """
    mass = np.asarray(counts, np.int64)
    total = int(mass.sum())
    heavy = np.asarray(own, np.bool_) & (mass * bins >= max(total, 1))
    starts: list[int] = []
    begin = 0
    for stop in [*np.flatnonzero(heavy).tolist(), mass.size]:
        if begin < stop:
            starts += _near_equal(mass[begin:stop], begin, total, bins)
        if stop < mass.size:
            starts.append(stop)
        begin = stop + 1
    return np.array(starts, np.int64)


def _near_equal(mass: Ints, offset: int, total: int, bins: int) -> list[int]:
    """Starts of the groups of one run of cells."""
    here = int(mass.sum())
    groups = max(1, round(here * bins / total)) if total else 1
    running = np.cumsum(mass)
    # the run's j-th group ends with the first cell that takes it to j/groups of the run's mass
    ends = [int(np.searchsorted(running * groups, here * j)) for j in range(1, groups)]
    cuts = sorted({end + 1 for end in ends if end + 1 < mass.size})
    return [offset, *(offset + cut for cut in cuts)]
