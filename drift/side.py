"""The reference's side of a comparison, ready for use: all hours, one slot, or a mixture of slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift.binning import SPECIALS
from drift.cells import Ints
from drift.ks import KsGrid
from drift.reference import Reference, coarse_starts

Reals = NDArray[np.float64]

ALL_HOURS = 0  # index of the counts of all hours; slot s has index s + 1


@dataclass(frozen=True, slots=True)
class Side:
    """``coarse`` float64 [features, groups] in rows, ``rows`` they count as, ``finite`` [features]
    of them with a place on the line, ``slots`` the weights of the counts used."""

    coarse: Reals
    rows: float
    finite: Reals
    grid: KsGrid
    slots: dict[int, float]


class Sides:
    """Makes the side that fits a window's hours; the ones of single slots are kept."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._flat, self.firsts = coarse_starts(reference.groups, reference.grid.cells)
        lengths = np.diff(self.firsts, append=len(self._flat))
        self._filled = np.arange(int(lengths.max())) < lengths[:, None]
        self._coarse = np.stack([self.padded(self.flat(own)) for own in reference.counts])
        self._rows = reference.counts[:, 0].sum(axis=1)
        self._kept: dict[int, Side] = {}

    def flat(self, counts: Ints) -> Ints:
        """Counts [features, width] as coarse groups of all features side by side."""
        return np.asarray(np.add.reduceat(counts.ravel(), self._flat), np.int64)

    def padded(self, flat: Ints) -> Ints:
        """Flat groups as [features, groups], with empty groups at the end of shorter rows."""
        wide = np.zeros(self._filled.shape, np.int64)
        wide[self._filled] = flat
        return wide

    def side(self, starts_ms: Ints, rows: Ints) -> Side:
        """The side for a window of panes that start at ``starts_ms`` with ``rows`` each."""
        weights = self._weights(starts_ms, rows)
        if len(weights) > 1:
            return self._mixture(weights)
        (index,) = weights
        if index not in self._kept:
            self._kept[index] = self._mixture(weights)
        return self._kept[index]

    def _weights(self, starts_ms: Ints, rows: Ints) -> dict[int, float]:
        slots = self._reference.policy.slots
        total = int(rows.sum())
        if not slots.count or not total:
            return {ALL_HOURS: 1.0}
        index = slots.slots(starts_ms) + 1
        index = np.where(self._rows[index] >= slots.min_rows, index, ALL_HOURS)
        shares = np.bincount(index, weights=rows.astype(np.float64)) / total
        return {int(i): float(shares[i]) for i in np.flatnonzero(shares)}

    def _mixture(self, weights: dict[int, float]) -> Side:
        index = np.array(list(weights), np.int64)
        share = np.array(list(weights.values()))
        # variances of independent slots add: 1/rows = sum of weight^2 / rows of the slot
        rows = 1.0 / float((share**2 / self._rows[index]).sum())
        factor = share * (rows / self._rows[index])
        reference = self._reference
        cells = reference.counts.shape[2] - SPECIALS
        counts = np.tensordot(factor, reference.counts[index, :, :cells], 1)
        at_edge = np.tensordot(factor, reference.at_edge[index], 1)
        coarse = np.tensordot(factor, self._coarse[index], 1)
        grid = KsGrid.of(counts, at_edge, reference.single)
        return Side(coarse, rows, counts.sum(axis=1), grid, weights)
