"""A reference in which some features are held against newer data: what a person's rebase asks for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from drift.binning import SPECIALS, Grid
from drift.cells import Ints
from drift.reference import Floors, Reference
from tidemill.errors import ContractError


def rebased(base: Reference, newer: Reference, names: Collection[str]) -> Reference:
    """``base`` with the features ``names`` taken from ``newer``; it has a hash of its own.

    Windows begin anew under it, since cells may differ.  Raises ContractError if a feature is in
    only one of them, is of another kind, or the two were built under different policies.
    """
    if (base.policy, base.dtype) != (newer.policy, newer.dtype):
        raise ContractError(
            f"the newer reference was built with {newer.policy} for {newer.dtype}, not with"
            f" {base.policy} for {base.dtype}: build it as the first was"
        )
    unknown = sorted(set(names) - (set(base.names) & set(newer.names)))
    if unknown:
        raise ContractError(f"features {unknown} are not in both references")
    picked = [
        (newer, newer.names.index(name)) if name in names else (base, i)
        for i, name in enumerate(base.names)
    ]
    columns = tuple(source.columns[i] for source, i in picked)
    if columns != base.columns:
        raise ContractError("a feature has another vocabulary in the newer reference")
    edges = tuple(source.edges[i] for source, i in picked)
    sizes = [column.vocabulary.size if column.vocabulary else 0 for column in columns]
    cells = Grid.of(list(edges), sizes, np.dtype(base.dtype)).cells
    return replace(
        base,
        edges=edges,
        counts=np.stack([_resized(s.counts[:, i], cells, SPECIALS) for s, i in picked], axis=1),
        at_edge=np.stack([_resized(s.at_edge[:, i], cells, 0) for s, i in picked], axis=1),
        floors=_floors(picked),
    )


def _floors(picked: list[tuple[Reference, int]]) -> Floors | None:
    """Those of each feature's own reference; 0 where none were measured."""
    if all(source.floors is None for source, _ in picked):
        return None
    psi = [source.floors.psi[i] if source.floors else 0.0 for source, i in picked]
    ks = [source.floors.ks[i] if source.floors else 0.0 for source, i in picked]
    return Floors(np.array(psi), np.array(ks))


def _resized(counts: Ints, cells: int, specials: int) -> Ints:
    """Counts [slots, cells + specials] with another number of cells; those beyond hold nothing."""
    old = counts.shape[1] - specials
    wide = np.zeros((counts.shape[0], cells + specials), np.int64)
    kept = min(old, cells)
    wide[:, :kept] = counts[:, :kept]
    wide[:, cells:] = counts[:, old:]
    return wide
