"""How far windows of the reference itself drift from the reference: the stream's own noise.

The chi-square of independent rows is too optimistic for a stream with memory, and the dispersion
between panes sees only memory shorter than a pane.  Replaying the reference's rows through the same
windows measures what is left: courses of a week, slow waves, bursts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drift.evaluate import Evaluator, Stats, Window
from drift.panes import PanePolicy, PaneWindow, Source
from drift.policy import DriftPolicy
from drift.reference import Floors, Reference
from tidemill.errors import SettingsError

QUANTILE: Final = (
    0.995  # of overlapping windows: about one long excursion in twenty windows' lengths
)
MIN_LENGTHS: Final = 5  # fewer windows' lengths say nothing of how they differ


def with_floors(
    reference: Reference,
    block: NDArray[Any],
    times_ms: ArrayLike,
    panes: PanePolicy,
    quantile: float = QUANTILE,
) -> Reference:
    """``reference`` with the floors that its own rows give; a reference with a hash of its own.

    ``block`` [rows, features] and ``times_ms`` [rows] in any order.  Raises SettingsError if they
    last for less than MIN_LENGTHS windows.
    """
    found = _replayed(reference, block, np.asarray(times_ms, np.int64), panes)
    slides = panes.window_ms / panes.slide_ms
    if len(found) < (MIN_LENGTHS - 1) * slides:
        raise SettingsError(
            f"{len(found)} full windows of {panes.window_ms} ms in the reference, at least"
            f" {(MIN_LENGTHS - 1) * slides:.0f} are needed: take a longer one or shorter windows"
        )
    psi = np.quantile([stats.psi for stats in found], quantile, axis=0)
    ks = np.quantile([np.nan_to_num(stats.ks_lo) for stats in found], quantile, axis=0)
    return replace(reference, floors=Floors(psi, ks))


def _replayed(
    reference: Reference, block: NDArray[Any], times: NDArray[np.int64], panes: PanePolicy
) -> list[Stats]:
    """The statistics of all full windows."""
    evaluator = Evaluator(reference, DriftPolicy(panes.window_ms, panes.slide_ms))
    shape = (len(reference.columns), reference.grid.width)
    window = PaneWindow(panes, shape, evaluator.project)
    order = np.argsort(times, kind="stable")
    starts = times[order] - times[order] % panes.pane_ms
    cuts = np.flatnonzero(np.diff(starts)) + 1
    for rows in np.split(order, cuts) if len(order) else []:
        pane = panes.pane_of(int(times[rows[0]]))
        window.put(pane, Source(0, 0), reference.grid.count(block[rows]))
    first, last = (int(starts[0]), int(starts[-1])) if len(starts) else (0, 0)
    found = []
    for end in window.due(last + panes.pane_ms):
        full = end - panes.window_ms >= first
        stats = evaluator.evaluate(Window(end, window.total, *window.panes())) if full else None
        if stats is not None and (stats.rows >= stats.min_rows).all():
            found.append(stats)
    return found
