"""Cells lose nothing: counts are a plain count, and the KS bracket holds the exact distance."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from drift.binning import MISSING, NEG_INF, POS_INF, Grid
from drift.cells import (
    at_edge_counts,
    cell_counts,
    cell_edges,
    cell_index,
    group_starts,
    single_valued,
)
from drift.ks import KsBracket, KsGrid, bracket, exact, p_value

SMOOTH = st.floats(-1e6, 1e6, width=32)
TIED = st.integers(-3, 3).map(float)  # ties and atoms
NEIGHBOURS = st.sampled_from([0.0, -0.0, 1.0, float(np.nextafter(np.float32(1), np.float32(2)))])
LARGEST = float(np.finfo(np.float32).max)
EXTREME = st.sampled_from([LARGEST, -LARGEST, 0.0, 1e-45])
FINITE = st.one_of(SMOOTH, TIED, NEIGHBOURS, EXTREME)
ANY = st.one_of(FINITE, st.sampled_from([np.nan, np.inf, -np.inf]))
CELLS = st.integers(2, 40)


def sample(values: Any, size: int = 80) -> Any:
    return st.lists(values, min_size=1, max_size=size).map(lambda v: np.array(v, np.float32))


SAMPLES = st.one_of(sample(FINITE), sample(TIED), sample(NEIGHBOURS))


def compare(ref: NDArray[Any], cur: NDArray[Any], cells: int) -> KsBracket:
    ref, cur = np.sort(ref), np.sort(cur)
    edges = cell_edges(ref, cells)
    grid = KsGrid.of(cell_counts(edges, ref), at_edge_counts(edges, ref), single_valued(edges))
    return bracket(grid, cell_counts(edges, cur))


@given(SAMPLES, CELLS)
def test_edges_rise_and_atoms_have_cells_of_their_own(ref: NDArray[Any], cells: int) -> None:
    ordered = np.sort(ref)
    edges = cell_edges(ordered, cells)
    assert (edges[1:] > edges[:-1]).all()
    assert len(edges) <= 2 * cells
    values, counts = np.unique(ordered, return_counts=True)
    own = single_valued(edges)
    for value in values[counts * cells >= ordered.size]:
        index = int(cell_index(edges, value))
        assert own[index] or value == -LARGEST
    open_mass = np.where(own, 0, cell_counts(edges, ordered))
    assert open_mass.max() <= -(-ordered.size // cells)


@given(SAMPLES, SAMPLES, CELLS)
def test_the_bracket_holds_the_exact_distance(
    ref: NDArray[Any], cur: NDArray[Any], cells: int
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its p-value, which isn't asked for
        true = float(stats.ks_2samp(ref, cur, method="exact").statistic)
    found = compare(ref, cur, cells)
    assert found.lo[0] <= true + 1e-12
    assert found.hi[0] >= true - 1e-12
    edges = cell_edges(np.sort(ref), cells)
    open_mass = np.where(single_valued(edges), 0, cell_counts(edges, np.sort(ref))).max()
    assert found.hi[0] <= found.lo[0] + open_mass / ref.size + 1e-12
    assert abs(exact(ref, cur) - true) < 1e-12
    same = compare(ref, np.tile(ref, 3), cells)
    assert (same.lo[0], same.sign[0]) == (0, 0)


@given(sample(TIED), SAMPLES)
def test_few_distinct_values_are_exact(ref: NDArray[Any], cur: NDArray[Any]) -> None:
    found = compare(ref, cur, 8)
    assert found.lo[0] == found.hi[0]
    assert abs(found.lo[0] - exact(ref, cur)) < 1e-12


@given(sample(FINITE), sample(FINITE))
def test_the_sign_says_where_the_window_lies(ref: NDArray[Any], cur: NDArray[Any]) -> None:
    above = compare(ref, np.full_like(cur, LARGEST), 8)
    assert above.sign[0] == (1 if above.lo[0] > 0 else 0)
    below = compare(ref, np.full_like(cur, -LARGEST), 8)
    assert below.sign[0] == (-1 if below.lo[0] > 0 else 0)


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_exact_p_is_the_share_of_orders_with_such_a_distance(
    n: int, m: int, data: st.DataObject
) -> None:
    places = set(range(n + m))
    distances = [
        exact(list(own), sorted(places - set(own))) for own in combinations(sorted(places), n)
    ]
    distance = data.draw(st.sampled_from(distances))
    share = np.mean(np.array(distances) >= distance - 1e-9)
    assert abs(p_value(distance, n, m) - share) < 1e-9


@given(st.lists(st.tuples(ANY, ANY), max_size=60), sample(FINITE), sample(TIED))
def test_counting_is_a_plain_count(
    rows: list[tuple[float, float]], first: NDArray[Any], second: NDArray[Any]
) -> None:
    edges = [cell_edges(np.sort(own), 8) for own in (first, second)]
    grid = Grid.of(edges, [0, 0])
    block = np.array(rows, np.float32).reshape(-1, 2)
    counts = grid.count(block)
    assert (counts.sum(axis=1) == len(rows)).all()
    for feature, own in enumerate(edges):
        plain = np.zeros(grid.width, np.int64)
        for value in block[:, feature]:
            if np.isnan(value):
                plain[grid.cells + MISSING] += 1
            elif np.isinf(value):
                plain[grid.cells + (POS_INF if value > 0 else NEG_INF)] += 1
            else:
                plain[int((own < value).sum())] += 1
        assert counts[feature].tolist() == plain.tolist()


@given(SAMPLES, CELLS, st.integers(2, 12))
def test_groups_part_all_cells_and_isolate_heavy_values(
    ref: NDArray[Any], cells: int, bins: int
) -> None:
    ordered = np.sort(ref)
    edges = cell_edges(ordered, cells)
    counts, own = cell_counts(edges, ordered), single_valued(edges)
    starts = group_starts(counts, own, bins)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert starts[-1] < len(counts)
    stops = [*starts[1:].tolist(), len(counts)]
    for start, stop in zip(starts.tolist(), stops, strict=True):
        heavy = own[start:stop] & (counts[start:stop] * bins >= ordered.size)
        assert not heavy.any() or stop - start == 1
