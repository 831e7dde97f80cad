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


def dispersion(panes: NDArray[np.int64], starts: NDArray[np.int64]) -> Reals:
    """phi >= 1 of every feature, float64 [features]; 1 with fewer than MIN_PANES panes with rows.

    ``panes`` [panes, groups] are counts of the groups of all features side by side, ``starts``
    [features] the first group of each.  Every feature of a pane has the same number of rows.
    """
    features = len(starts)
    width = int(starts[1] - starts[0]) if features > 1 else panes.shape[1]
    rows = panes[:, :width].sum(axis=1)
    full = rows > 0
    count = int(full.sum())
    if count < MIN_PANES:
        return np.ones(features)
    kept, n = panes[full], rows[full]
    window = kept.sum(axis=0)
    # sum (c - n q)^2 / (n q) = sum over groups of (sum over panes of c^2/n) / q, less all rows
    squares = (1.0 / n) @ np.square(kept.astype(np.float64))
    total = float(n.sum())
    share = np.maximum(window, 1) / total
    chi2 = np.add.reduceat(squares / share, starts) - total
    bins = np.add.reduceat((window > 0).astype(np.int64), starts)
    freedom = np.maximum((count - 1) * (bins - 1), 1)
    return np.asarray(np.maximum(chi2 / freedom, 1.0))
