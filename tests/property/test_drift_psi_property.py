"""PSI is a distance-like number: never negative, symmetric, the sum of its parts, beyond KS."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drift import psi
from drift.ks import KsGrid, bracket

COUNTS = (
    st.integers(2, 15)
    .flatmap(
        lambda bins: st.tuples(
            *[st.lists(st.integers(0, 10_000), min_size=bins, max_size=bins)] * 2
        )
    )
    .filter(lambda sides: all(map(any, sides)))
)


@given(COUNTS)
def test_psi_is_never_negative_and_symmetric(sides: tuple[list[int], list[int]]) -> None:
    ref, cur = sides
    parts = psi.contributions(ref, cur)
    assert (parts >= 0).all()
    assert math.isclose(psi.psi(ref, cur), parts.sum())
    assert math.isclose(psi.psi(ref, cur), psi.psi(cur, ref), abs_tol=1e-15)
    assert psi.psi(ref, ref) == 0


@given(COUNTS, st.integers(0, 14))
def test_a_bin_empty_on_both_sides_adds_nothing(
    sides: tuple[list[int], list[int]], at: int
) -> None:
    ref, cur = sides
    with_it = psi.psi([*ref[:at], 0, *ref[at:]], [*cur[:at], 0, *cur[at:]])
    assert math.isclose(with_it, psi.psi(ref, cur), abs_tol=1e-12)


@given(COUNTS)
def test_ks_on_the_same_bins_is_bounded_by_psi(sides: tuple[list[int], list[int]]) -> None:
    ref, cur = (np.array(side) + 1 for side in sides)
    none = np.zeros(len(ref))
    distance = bracket(KsGrid.of(ref, none, none), cur).lo[0]
    assert distance <= psi.binned_ks_limit(psi.psi(ref, cur, 0)) + 1e-9


@given(st.integers(50, 10**6), st.integers(50, 10**6), st.integers(2, 20), st.floats(0, 5))
def test_noise_numbers_agree_with_each_other(n: int, m: int, bins: int, value: float) -> None:
    for alpha in (0.05, 1e-4):
        critical = float(psi.critical(n, m, bins, alpha))
        assert math.isclose(float(psi.p_value(critical, n, m, bins)), alpha, rel_tol=1e-6)
    lower = float(psi.lower_bound(value, n, m, bins, 0.95))
    assert 0 <= lower <= value
    if float(psi.p_value(value, n, m, bins)) > 0.05:
        assert lower == 0
    rows = float(psi.min_rows(0.1, m, bins, 1e-4))
    if math.isfinite(rows):
        assert psi.critical(rows, m, bins, 1e-4) <= 0.1 + 1e-12
        assert psi.critical(rows - 1, m, bins, 1e-4) > 0.1 or rows <= 1
