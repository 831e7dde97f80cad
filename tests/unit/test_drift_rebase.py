"""A rebased feature is held against the newer data, the others against what they were."""

from __future__ import annotations

import numpy as np
import pytest

from drift.rebase import rebased
from drift.reference import Column, Reference, ReferencePolicy, build_reference
from drift.reference_file import reference_id
from drift.vocabulary import Vocabulary
from tidemill.errors import ContractError

WORDS = Vocabulary(("a", "b"))
COLUMNS = (Column("smooth"), Column("stuck"), Column("zone", WORDS))


def make(seed: int, smooth: bool = True) -> Reference:
    chance = np.random.default_rng(seed)
    block = np.zeros((1_000, 3), np.float32)
    if smooth:
        block[:, 0] = chance.standard_normal(1_000)
    block[:, 2] = chance.integers(0, 2, 1_000)
    return build_reference("m", "1", COLUMNS, block)


@pytest.mark.parametrize("smooth", [True, False])
def test_named_features_are_taken_from_the_newer_reference(smooth: bool) -> None:
    base, newer = make(1), make(2, smooth)
    both = rebased(base, newer, ["smooth"])
    assert np.array_equal(both.edges[0], newer.edges[0])
    assert np.array_equal(both.edges[1], base.edges[1])
    assert both.counts.shape[2] == both.grid.width
    assert both.at_edge.shape[2] == both.grid.cells
    assert (both.counts.sum(axis=2) == 1_000).all()
    assert both.labels(0) == newer.labels(0)
    assert both.counts[0, 2, :2].tolist() == base.counts[0, 2, :2].tolist()
    assert reference_id(both) not in (reference_id(base), reference_id(newer))


def test_all_features_or_none_give_the_one_or_the_other() -> None:
    base, newer = make(1), make(2)
    assert reference_id(rebased(base, newer, [])) == reference_id(base)
    assert reference_id(rebased(base, newer, base.names)) == reference_id(newer)


def test_references_that_dont_fit_are_refused() -> None:
    base = make(1)
    block = np.zeros((10, 1), np.float32)
    with pytest.raises(ContractError, match="not in both"):
        rebased(base, build_reference("m", "1", [Column("other")], block), ["other"])
    with pytest.raises(ContractError, match="another vocabulary"):
        rebased(base, build_reference("m", "1", [Column("zone")], block), ["zone"])
    policy = ReferencePolicy(cells=64)
    with pytest.raises(ContractError, match="build it as the first was"):
        rebased(base, build_reference("m", "1", [Column("zone", WORDS)], block, policy), ["zone"])
