"""How many rows of a window count as independent.

Rows near in time resemble each other, and a test that takes them as independent alarms on nothing
(AR(1) with 0.9: 65 % false alarms at 1 %).  The panes of the window show it: without such a
resemblance their histograms scatter around the window's as a chi-square says.

    phi = chi2(panes against window) / ((P-1)(B-1)),  at least 1;  n_eff = n / phi

It under-corrects when a pane is shorter than the correlation lasts, so phi is reported, not hidden.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MIN_PANES: Final = 4  # with fewer, the estimate scatters by half of itself

Reals = NDArray[np.float64]


def dispersion(panes: Reals, rows: NDArray[np.int64], starts: NDArray[np.int64]) -> Reals:
    """phi >= 1 of every feature, float64 [features]; 1 with fewer than MIN_PANES panes with rows.

    ``panes`` float64 [panes, groups] are counts of the groups of all features side by side, ``rows``
    [panes] how many rows each has, ``starts`` [features] the first group of each feature.
    """
    if not rows.all():
        panes, rows = panes[rows > 0], rows[rows > 0]
    count = len(rows)
    if count < MIN_PANES:
        return np.ones(len(starts))
    window = panes.sum(axis=0)
    # sum (c - n q)^2 / (n q) = sum over groups of (sum over panes of c^2/n) / q, less all rows
    squares = np.einsum("p,pg,pg->g", 1.0 / rows, panes, panes)
    total = float(rows.sum())
    chi2 = np.add.reduceat(squares * total / np.maximum(window, 1.0), starts) - total
    bins = np.add.reduceat((window > 0).astype(np.int64), starts)
    freedom = np.maximum((count - 1) * (bins - 1), 1)
    return np.asarray(np.maximum(chi2 / freedom, 1.0))
