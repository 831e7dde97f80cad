"""A stream with memory sets its own thresholds; one without keeps the policy's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from drift.monitor import Monitor
from drift.noise import with_floors
from drift.panes import PanePolicy, Source
from drift.policy import DriftPolicy
from drift.rebase import rebased
from drift.reference import Column, Reference, build_reference
from drift.reference_file import load_reference, reference_id, save_reference
from drift.states import Status
from tidemill.errors import SettingsError

MINUTE = 60_000
PANES = PanePolicy(MINUTE, 10 * MINUTE, MINUTE)
POLICY = DriftPolicy(window_ms=10 * MINUTE, slide_ms=MINUTE)
A_MINUTE = 100


def rows_of(minutes: int, seed: int) -> NDArray[np.float32]:
    """Two features: independent rows, and a slow wave whose phase wanders."""
    chance = np.random.default_rng(seed)
    n = minutes * A_MINUTE
    phase = np.cumsum(chance.normal(2 * np.pi / (14 * A_MINUTE), 0.02, n))
    wave = np.sin(phase) + chance.normal(0, 0.5, n)
    return np.asarray(np.stack((chance.standard_normal(n), wave), axis=1), np.float32)


def times_of(rows: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.arange(len(rows), dtype=np.int64) * (MINUTE // A_MINUTE)


@pytest.fixture(scope="module")
def plain() -> Reference:
    return build_reference("m", "1", [Column("calm"), Column("wave")], rows_of(500, 1))


@pytest.fixture(scope="module")
def floored(plain: Reference) -> Reference:
    rows = rows_of(500, 1)
    return with_floors(plain, rows, times_of(rows), PANES)


def statuses(reference: Reference, rows: NDArray[np.float32]) -> set[Status]:
    """Statuses of the wave in full windows."""
    monitor = Monitor(reference, POLICY, PANES)
    for minute, part in enumerate(np.split(rows, len(rows) // A_MINUTE)):
        monitor.put(minute * MINUTE, Source(0, 0), reference.grid.count(part))
    reports = list(monitor.advance(10**9))[10:-10]
    return {report.statuses[1] for report in reports}


def test_a_wave_is_frozen_without_floors_and_not_with_them(
    plain: Reference, floored: Reference
) -> None:
    rows = rows_of(300, 2)
    assert Status.FROZEN in statuses(plain, rows)
    assert Status.FROZEN not in statuses(floored, rows)


def test_real_damage_is_found_all_the_same(floored: Reference) -> None:
    rows = rows_of(100, 3)
    rows[3_000:, 1] += 5
    assert Status.FROZEN in statuses(floored, rows)


def test_only_what_has_memory_is_raised(floored: Reference) -> None:
    assert floored.floors is not None
    assert floored.floors.psi[0] < POLICY.alert_psi < floored.floors.psi[1]
    assert floored.floors.ks[0] < POLICY.ks_alert < floored.floors.ks[1]


def test_floors_are_kept_with_the_reference(
    plain: Reference, floored: Reference, tmp_path: Path
) -> None:
    name = save_reference(floored, tmp_path)
    again = load_reference(tmp_path, name)
    assert again.floors is not None
    assert floored.floors is not None
    assert again.floors.psi.tolist() == floored.floors.psi.tolist()
    assert reference_id(again) == name != reference_id(plain)
    mixed = rebased(floored, plain, ["wave"])
    assert mixed.floors is not None
    assert mixed.floors.psi.tolist() == [floored.floors.psi[0], 0.0]


def test_a_short_reference_has_no_floors(plain: Reference) -> None:
    rows = rows_of(40, 1)
    with pytest.raises(SettingsError, match="take a longer one"):
        with_floors(plain, rows, times_of(rows), PANES)
    with pytest.raises(SettingsError, match="0 full windows"):
        with_floors(plain, rows[:0], times_of(rows[:0]), PANES)
