"""All statistics of one window, for all features at once.

Decides nothing: `drift.judge` does.  Arrays are float64 [features] unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift import ks, psi
from drift.binning import MISSING, NEG_INF, POS_INF, UNSEEN
from drift.cells import Ints
from drift.dispersion import dispersion
from drift.policy import DriftPolicy
from drift.reference import Floors, Reference
from drift.side import Side, Sides

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """What is evaluated: counts int64 [features, width] up to ``end_ms``, and the panes they sum.

    ``starts_ms`` [panes], ``panes`` float64 [panes, groups] as `Evaluator.project` makes them.
    """

    end_ms: int
    total: Ints
    starts_ms: Ints
    panes: Reals


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of one window.  KS values of a category are NaN and ``ordered`` is false."""

    end_ms: int
    rows: int
    reference_rows: float
    slots: dict[int, float]  # weight by slot + 1, and under 0 that of all hours
    dispersion: Reals
    effective_rows: Reals
    min_rows: Reals
    bins: Ints
    psi: Reals
    psi_p: Reals
    psi_critical: Reals
    psi_lower: Reals
    contributions: Reals  # [features, groups], the last used three: non-finite, missing, unseen
    ref_shares: Reals  # [features, groups]
    cur_shares: Reals  # [features, groups]
    ordered: NDArray[np.bool_]
    ks_lo: Reals
    ks_hi: Reals
    ks_p: Reals
    ks_rows: Reals  # effective rows of the window with a place on the line
    ks_at: Ints  # cell
    ks_sign: Ints
    missing: Reals
    unseen: Reals
    non_finite: Reals
    unusable_before: Reals  # the three together in the reference
    psi_floor: Reals  # what windows of the reference itself reach, 0 if not measured
    ks_floor: Reals

    @property
    def unusable(self) -> Reals:
        """Share of missing, unseen and non-finite values in the window."""
        return self.missing + self.unseen + self.non_finite


class Evaluator:
    """Statistics against one reference; keeps only what the reference alone decides."""

    def __init__(self, reference: Reference, policy: DriftPolicy) -> None:
        self.reference = reference
        self.policy = policy
        self._sides = Sides(reference)
        self._ordered = reference.numeric
        self._cells = reference.grid.cells
        none = np.zeros(len(reference.columns))
        self._floors = reference.floors or Floors(none, none)
        self._alpha = policy.alpha(len(reference.columns))

    def project(self, counts: Ints) -> Ints:
        """A pane's counts in the form that `Window.panes` wants; for `PaneWindow(project=)`."""
        return self._sides.flat(counts)

    def evaluate(self, window: Window) -> Stats | None:
        """The statistics, or None for a window without rows."""
        rows = int(window.total[0].sum())
        if not rows:
            return None
        first = slice(0, int(self._sides.firsts[1]) if len(self._sides.firsts) > 1 else None)
        pane_rows = window.panes[:, first].sum(axis=1).astype(np.int64)
        side = self._sides.side(window.starts_ms, pane_rows)
        coarse = self._sides.padded(self._sides.flat(window.total))
        phi = dispersion(window.panes, pane_rows, self._sides.firsts)
        return self._stats(window, rows, side, coarse, phi)

    def _stats(self, window: Window, rows: int, side: Side, coarse: Ints, phi: Reals) -> Stats:
        n, m = rows / phi, side.rows
        parts = psi.contributions(side.coarse, coarse)
        value = parts.sum(axis=1)
        bins = psi.kept_bins(side.coarse, coarse)
        specials = window.total[:, self._cells :] / rows
        bracket = ks.bracket(side.grid, window.total[:, : self._cells])
        finite = window.total[:, : self._cells].sum(axis=1) / phi
        absent = np.where(self._ordered, 0.0, np.nan)
        return Stats(
            end_ms=window.end_ms,
            rows=rows,
            reference_rows=m,
            slots=side.slots,
            dispersion=phi,
            effective_rows=n,
            min_rows=psi.min_rows(self.policy.alert_psi, m, bins, self._alpha),
            bins=bins,
            psi=value,
            psi_p=psi.p_value(value, n, m, bins),
            psi_critical=psi.critical(n, m, bins, self._alpha),
            psi_lower=self._lower(value, n, m, bins),
            contributions=parts,
            ref_shares=side.coarse / m,
            cur_shares=coarse / rows,
            ordered=self._ordered,
            ks_lo=bracket.lo + absent,
            ks_hi=bracket.hi + absent,
            ks_p=ks.p_values(bracket.lo, finite, side.finite) + absent,
            ks_rows=finite,
            ks_at=bracket.at,
            ks_sign=bracket.sign,
            missing=specials[:, MISSING],
            unseen=specials[:, UNSEEN],
            non_finite=specials[:, NEG_INF] + specials[:, POS_INF],
            unusable_before=1.0 - _cells_share(side),
            psi_floor=self._floors.psi,
            ks_floor=self._floors.ks,
        )

    def _lower(self, value: Reals, n: Reals, m: float, bins: Ints) -> Reals:
        """The lower bound where it may matter: it costs more than all the rest together."""
        lower = np.zeros_like(value)
        high = value >= self.policy.alert_psi
        if high.any():
            level = self.policy.bound_level
            lower[high] = psi.lower_bound(value[high], n[high], m, bins[high], level)
        return lower


def _cells_share(side: Side) -> Reals:
    """Share of the reference rows that fell in a cell."""
    return side.finite / side.rows
