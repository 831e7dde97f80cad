"""A reference keeps what it was built from, comes back as it was stored, and knows its own name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drift.binning import MISSING, NEG_INF, POS_INF, UNSEEN
from drift.cells import cell_edges, group_starts, part, quantile_edges, single_valued
from drift.reference import Column, Reference, ReferencePolicy, build_reference
from drift.reference_file import (
    FILE_NAME,
    decode_reference,
    encode_reference,
    load_reference,
    reference_id,
    save_reference,
)
from drift.slots import SlotPolicy
from drift.vocabulary import Vocabulary
from tidemill.errors import ContractError, SettingsError

HOUR_MS = 3_600_000
ZONES = Vocabulary(("north", "south", "east"))
COLUMNS = (Column("eta"), Column("zone", ZONES), Column("shop", Vocabulary(buckets=16)))


def make(rows: int = 2000, seed: int = 1, slots: SlotPolicy = SlotPolicy()) -> Reference:  # noqa: B008  frozen
    chance = np.random.default_rng(seed)
    block = np.empty((rows, 3), np.float32)
    block[:, 0] = chance.gamma(2.0, size=rows)
    block[:, 1] = ZONES.codes(chance.choice(["north", "south"], rows))
    block[:, 2] = COLUMNS[2].vocabulary.codes(chance.choice(["a", "b", "c"], rows))  # type: ignore[union-attr]
    times = np.arange(rows) * HOUR_MS // 50
    return build_reference("m", "1", COLUMNS, block, ReferencePolicy(slots=slots), times)


def test_cells_hold_near_equal_mass_and_all_rows() -> None:
    reference = make()
    cells = reference.grid.cells
    assert (reference.counts.sum(axis=2) == 2000).all()
    numbers = reference.counts[0, 0, :cells]
    assert numbers.max() == 8
    assert (numbers > 0).sum() == 256
    assert reference.rows == 2000
    assert reference.numeric.tolist() == [True, False, False]


def test_a_category_without_reference_rows_counts_as_unseen() -> None:
    reference = make()
    grid = reference.grid
    block = np.zeros((6, 3), np.float32)
    block[:, 1] = ZONES.codes(["north", "south", "east", "mars", None, "north"])
    block[:, 2] = COLUMNS[2].vocabulary.codes(["a", "zzz", "a", "b", "c", None])  # type: ignore[union-attr]
    counts = grid.count(block)
    assert counts[1, :3].tolist() == [2, 1, 0]
    assert counts[1, grid.cells + UNSEEN] == 2
    assert counts[1, grid.cells + MISSING] == 1
    assert counts[2, grid.cells + UNSEEN] == 1
    assert counts[2, grid.cells + MISSING] == 1


def test_missing_and_infinite_values_are_kept_apart() -> None:
    values = np.array([1, np.nan, np.inf, -np.inf, 2], np.float32)
    reference = build_reference("m", "1", [Column("x")], values[:, None])
    specials = reference.counts[0, 0, reference.grid.cells :]
    assert specials[[NEG_INF, POS_INF, MISSING, UNSEEN]].tolist() == [1, 1, 1, 0]
    assert part(values).rows == 5


def test_a_reference_comes_back_and_has_the_same_name(tmp_path: Path) -> None:
    reference = make(slots=SlotPolicy("hour_of_day"))
    name = save_reference(reference, tmp_path)
    again = load_reference(tmp_path, name)
    assert reference_id(again) == name == reference_id(reference)
    assert again.columns == reference.columns
    assert again.policy == reference.policy
    assert np.array_equal(again.counts, reference.counts)
    assert np.array_equal(again.at_edge, reference.at_edge)
    assert np.array_equal(again.grid.queries, reference.grid.queries)
    assert [p.name for p in tmp_path.iterdir()] == [FILE_NAME]


def test_other_data_has_another_name() -> None:
    assert reference_id(make(seed=1)) == reference_id(make(seed=1))
    assert reference_id(make(seed=1)) != reference_id(make(seed=2))


def test_a_damaged_missing_or_other_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="build the model's reference"):
        load_reference(tmp_path)
    name = save_reference(make(), tmp_path)
    with pytest.raises(ContractError, match="rebase to it"):
        load_reference(tmp_path, "0" * 64)
    path = tmp_path / FILE_NAME
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(ContractError, match="damaged"):
        load_reference(tmp_path, name)
    with pytest.raises(ContractError, match="expected magic"):
        decode_reference(b"not a reference, but long enough to be one" * 3)


def test_a_reference_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_reference(make())
    monkeypatch.setattr("drift.reference_file.VERSION", 2)
    with pytest.raises(ContractError, match="version 1, expected a drift reference of version 2"):
        decode_reference(data)


def test_slots_count_the_rows_of_their_hours() -> None:
    reference = make(slots=SlotPolicy("hour_of_day", offset_ms=HOUR_MS))
    assert reference.counts.shape[0] == 25
    assert np.array_equal(reference.counts[1:].sum(axis=0), reference.counts[0])
    assert np.array_equal(reference.at_edge[1:].sum(axis=0), reference.at_edge[0])


def test_hours_start_at_local_midnight_and_weeks_on_monday() -> None:
    monday = 1_767_571_200_000  # 2026-01-05T00:00Z
    assert SlotPolicy("hour_of_day").slots([monday, monday + 23 * HOUR_MS]).tolist() == [0, 23]
    assert SlotPolicy("hour_of_week").slots([monday, monday - 1]).tolist() == [0, 167]
    assert SlotPolicy("hour_of_week", -HOUR_MS).slots([monday]).tolist() == [167]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (np.zeros((3, 2), np.float32), r"\[3, 2\] for 1 features"),
        (np.zeros((0, 1), np.float32), r"\[0, 1\] for 1 features"),
        (np.zeros((3, 1), np.int64), "not int64"),
        (np.full((3, 1), np.nan, np.float32), "no finite value"),
    ],
)
def test_a_block_that_makes_no_reference_is_refused(block: np.ndarray, says: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(SettingsError, match=says):
        build_reference("m", "1", [Column("x")], block)


def test_seasons_need_times_and_names_must_differ() -> None:
    block = np.zeros((3, 2), np.float32)
    policy = ReferencePolicy(slots=SlotPolicy("hour_of_day"))
    with pytest.raises(SettingsError, match="times_ms"):
        build_reference("m", "1", [Column("x"), Column("y")], block, policy)
    with pytest.raises(SettingsError, match="each named once"):
        build_reference("m", "1", [Column("x"), Column("x")], block)


def test_a_heavy_value_has_a_cell_and_a_group_of_its_own() -> None:
    ordered = np.array([0] * 8 + [1, 2], np.float64)
    edges = cell_edges(ordered, 10)
    assert quantile_edges(ordered, 10).tolist() == [0, 1]
    own = single_valued(edges)
    starts = group_starts([0, 8, 0, 1, 0, 1, 0], own, 5)
    assert starts.tolist() == [0, 1, 2]


def test_labels_name_every_bin() -> None:
    reference = make()
    assert reference.labels(1)[-4:] == ["east", "non-finite", "missing", "unseen"]
    numbers = reference.labels(0)
    assert len(numbers) == 13
    assert numbers[0].startswith("(-inf, ")
    assert numbers[9].endswith(", inf)")
    constant = build_reference("m", "1", [Column("x")], np.ones((9, 1), np.float32))
    assert "= 1" in constant.labels(0)
