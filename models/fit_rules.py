"""Rules as a dispatcher would write them, read off the training data.

Decides: the start (median) and what each class of a feature adds (the median of what is left over
by the features before), rounded so that people can read and change it. Must not know: torch, how rules are evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from models.merge import Block

Labels = npt.NDArray[np.float64]
RULES_VERSION = 1
MIN_ROWS = 30  # a class with fewer says nothing


def fit_rules(
    block: Block,
    labels: Labels,
    names: Sequence[str],
    tables: Sequence[tuple[str, tuple[float, ...]]],
    output: str,
) -> dict[str, Any]:
    """A rule file for `output`, in the format of `operators.rules`.

    `tables`: feature and the edges of its classes; class i holds edges[i-1] <= x < edges[i].
    """
    start = round(float(np.median(labels)), 1)
    left = labels - start
    rules: list[dict[str, Any]] = []
    for feature, edges in tables:
        classes = np.searchsorted(np.asarray(edges), block[:, names.index(feature)], side="right")
        added = np.zeros(len(edges) + 1)
        for index in range(len(added)):
            rows = left[classes == index]
            if len(rows) >= MIN_ROWS:
                added[index] = round(float(np.median(rows)), 1)
            if added[index]:
                rules.append(_rule(feature, edges, index, float(added[index])))
        left = left - added[classes]
    low, high = (round(float(limit), 1) for limit in np.quantile(labels, (0.001, 0.999)))
    return {
        "v": RULES_VERSION,
        "outputs": {output: {"start": start, "rules": rules, "low": low, "high": high}},
    }


def _rule(feature: str, edges: Sequence[float], index: int, add: float) -> dict[str, Any]:
    limits = {}
    if index > 0:
        limits["from"] = edges[index - 1]
    if index < len(edges):
        limits["below"] = edges[index]
    return {"when": {feature: limits}, "add": add}
