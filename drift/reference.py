"""What the model was trained on, as counts: the one side of every drift statistic.

Frozen with the model's version and named by its own hash, so a report says what it compared with.
Decides: edges, cells, coarse groups, seasonal counts.  Must not know: windows, thresholds, states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drift.binning import MISSING, NEG_INF, SPECIALS, UNSEEN, Grid
from drift.cells import Ints, at_edge_counts, cell_edges, group_starts, single_valued
from drift.slots import SlotPolicy
from drift.vocabulary import Vocabulary
from tidemill.errors import SettingsError

CELLS: Final = 256
BINS: Final = 10


@dataclass(frozen=True, slots=True)
class Column:
    """A feature of the block: a number, or with a vocabulary a category given as its code."""

    name: str
    vocabulary: Vocabulary | None = None


@dataclass(frozen=True, slots=True)
class ReferencePolicy:
    """How fine a reference is built: ``cells`` a feature, ``bins`` of PSI, and its seasons."""

    cells: int = CELLS
    bins: int = BINS
    slots: SlotPolicy = field(default_factory=SlotPolicy)

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= self.cells <= 4096:
            raise SettingsError(
                f"{self.bins} bins of {self.cells} cells: choose 2 <= bins <= cells <= 4096"
            )


@dataclass(frozen=True, slots=True)
class Floors:
    """What windows of the reference itself reach: float64 [features], from `drift.noise`.

    Where it is above the alert's threshold, all thresholds of the feature are raised by the excess.
    """

    psi: NDArray[np.float64]
    ks: NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """Counts of the reference rows.

    ``edges`` is one rising array a number and an empty one a category.  ``counts`` int64 [1 + slots,
    features, width] and ``at_edge`` int64 [1 + slots, features, cells] hold all hours first, then
    each slot.  A row of counts is the cells and the four specials of `drift.binning`.  ``floors`` of
    None means that the noise of the stream was not measured.
    """

    model: str
    version: str
    columns: tuple[Column, ...]
    policy: ReferencePolicy
    edges: tuple[NDArray[Any], ...]
    counts: Ints
    at_edge: Ints
    dtype: str = "float32"
    floors: Floors | None = None

    @cached_property
    def grid(self) -> Grid:
        """What counts a window into the same cells; a code without reference rows is unseen."""
        grid = Grid.of(list(self.edges), _sizes(self.columns), np.dtype(self.dtype))
        return grid.folding(self.counts[0, :, : grid.cells] == 0)

    @cached_property
    def single(self) -> NDArray[np.bool_]:
        """Cells with one value only, [features, cells]."""
        marks = np.zeros((len(self.columns), self.grid.cells), np.bool_)
        for mark, own, column in zip(marks, self.edges, self.columns, strict=True):
            if column.vocabulary is not None:
                mark[: column.vocabulary.size] = True
            else:
                mark[: len(own) + 1] = single_valued(own)
        return marks

    @cached_property
    def groups(self) -> tuple[Ints, ...]:
        """First cell of each coarse group, a feature; then come the specials."""
        cells = self.grid.cells
        return tuple(
            group_starts(counts[:cells], own, self.policy.bins)
            for counts, own in zip(self.counts[0], self.single, strict=True)
        )

    @property
    def numeric(self) -> NDArray[np.bool_]:
        """Features that have an order, and so a KS distance."""
        return np.array([column.vocabulary is None for column in self.columns], np.bool_)

    @property
    def rows(self) -> int:
        """Reference rows of all hours."""
        return int(self.counts[0, 0].sum())

    @property
    def names(self) -> tuple[str, ...]:
        """The features, in the block's order."""
        return tuple(column.name for column in self.columns)

    def labels(self, feature: int) -> list[str]:
        """What a person is shown for each coarse bin of a feature, the specials last."""
        starts = self.groups[feature].tolist()
        words = self.columns[feature].vocabulary
        if words:
            stops = [*starts[1:], words.size]
            names = [_category_label(words, a, b) for a, b in zip(starts, stops, strict=True)]
        else:
            own = self.edges[feature]
            names = [
                _interval_label(own, a, b, self.single[feature])
                for a, b in zip(starts, [*starts[1:], len(own) + 1], strict=True)
            ]
        return [*names, "non-finite", "missing", "unseen"]


def build_reference(
    model: str,
    version: str,
    columns: Sequence[Column],
    block: NDArray[Any],
    policy: ReferencePolicy = ReferencePolicy(),
    times_ms: ArrayLike | None = None,
) -> Reference:
    """Count the rows of ``block`` (float32 or float64 [rows, features], NaN = missing).

    ``times_ms`` [rows] is needed for seasonal slots.  Raises SettingsError if the block doesn't fit
    the columns, has no rows, or a number has no finite value at all.
    """
    _check(columns, block)
    sizes = _sizes(columns)
    edges = [_edges_of(c, block[:, i], policy.cells) for i, c in enumerate(columns)]
    grid = Grid.of(edges, sizes, block.dtype)
    parts = [block]
    if policy.slots.count:
        if times_ms is None or len(np.asarray(times_ms)) != len(block):
            raise SettingsError("seasonal slots need times_ms, one of each row of the reference")
        slots = policy.slots.slots(times_ms)
        parts += [block[slots == slot] for slot in range(policy.slots.count)]
    counts = np.stack([grid.count(part) for part in parts])
    at_edge = np.stack([_at_edges(grid.cells, edges, part) for part in parts])
    return Reference(
        model, version, tuple(columns), policy, tuple(edges), counts, at_edge, str(block.dtype)
    )


def coarse_starts(groups: Sequence[Ints], cells: int) -> tuple[Ints, Ints]:
    """Where groups start in counts laid flat, and the first group of each feature.

    Groups of a feature are its coarse bins, non-finite, missing and unseen, in this order.
    """
    tail = cells + np.array([NEG_INF, MISSING, UNSEEN])
    starts = [np.concatenate((own, tail)) for own in groups]
    flat = np.concatenate([own + i * (cells + SPECIALS) for i, own in enumerate(starts)])
    firsts = np.cumsum([0, *(len(own) for own in starts[:-1])])
    return flat.astype(np.int64), firsts.astype(np.int64)


def _sizes(columns: Sequence[Column]) -> list[int]:
    return [column.vocabulary.size if column.vocabulary else 0 for column in columns]


def _check(columns: Sequence[Column], block: NDArray[Any]) -> None:
    if block.dtype not in (np.float32, np.float64):
        raise SettingsError(f"a reference block is float32 or float64, not {block.dtype}")
    if block.ndim != 2 or block.shape[1] != len(columns) or not block.shape[0]:
        raise SettingsError(f"a block {list(block.shape)} for {len(columns)} features")
    names = [column.name for column in columns]
    if not names or len(set(names)) != len(names):
        raise SettingsError("a reference needs features, each named once")


def _edges_of(column: Column, values: NDArray[Any], cells: int) -> NDArray[Any]:
    if column.vocabulary:
        return np.empty(0, values.dtype)
    finite = np.sort(values[np.isfinite(values)])
    if not finite.size:
        raise SettingsError(
            f"feature {column.name} has no finite value in the reference: leave it out, or repair"
            " the data"
        )
    return cell_edges(finite, cells)


def _at_edges(cells: int, edges: Sequence[NDArray[Any]], block: NDArray[Any]) -> Ints:
    found = np.zeros((len(edges), cells), np.int64)
    for row, own, column in zip(found, edges, block.T, strict=True):
        if own.size:
            finite = np.sort(column[np.isfinite(column)])
            row[: own.size + 1] = at_edge_counts(own, finite)
    return found


def _category_label(words: Vocabulary, start: int, stop: int) -> str:
    first = words.name_of(start)
    return first if stop - start <= 1 else f"{first} .. {words.name_of(stop - 1)}"


def _interval_label(edges: NDArray[Any], start: int, stop: int, single: NDArray[np.bool_]) -> str:
    if stop - start == 1 and single[start]:
        return f"= {edges[start]:g}"
    low = f"({edges[start - 1]:g}" if start else "(-inf"
    return f"{low}, {edges[stop - 1]:g}]" if stop <= len(edges) else f"{low}, inf)"
