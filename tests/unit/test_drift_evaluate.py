"""Statistics of a window: right numbers, calm without drift, refusal where nothing can be said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats as known

from drift.evaluate import Evaluator, Stats, Window
from drift.explain import explain
from drift.judge import Judgement, Level, judge
from drift.policy import DriftPolicy
from drift.reference import Column, Reference, ReferencePolicy, build_reference
from drift.slots import SlotPolicy
from drift.vocabulary import Vocabulary

HOUR_MS = 3_600_000
POLICY = DriftPolicy()
Block = NDArray[np.float32]


def normal(rows: int, features: int = 1, seed: int = 1) -> Block:
    return np.random.default_rng(seed).standard_normal((rows, features)).astype(np.float32)


def reference_of(block: Block, **policy: Any) -> Reference:
    columns = [Column(f"f{i}") for i in range(block.shape[1])]
    return build_reference("m", "1", columns, block, ReferencePolicy(**policy))


def evaluate(reference: Reference, rows: Block, panes: int = 10, start_ms: int = 0) -> Stats:
    found = Evaluator(reference, POLICY).evaluate(window_of(reference, rows, panes, start_ms))
    assert found is not None
    return found


def window_of(reference: Reference, rows: Block, panes: int, start_ms: int = 0) -> Window:
    evaluator = Evaluator(reference, POLICY)
    counts = [reference.grid.count(part) for part in np.array_split(rows, panes)]
    starts = start_ms + np.arange(panes, dtype=np.int64) * 60_000
    total = np.asarray(np.sum(counts, axis=0), np.int64)
    projected = np.stack([evaluator.project(one) for one in counts]).astype(np.float64)
    return Window(start_ms + panes * 60_000, total, starts, projected)


def verdict(reference: Reference, rows: Block) -> Judgement:
    return judge(evaluate(reference, rows), POLICY, rows.shape[1])[0]


def test_numbers_agree_with_scipy() -> None:
    ref, cur = normal(50_000), normal(5_000, seed=2) + np.float32(0.2)
    found = evaluate(reference_of(ref), cur, panes=1)
    true = known.ks_2samp(ref[:, 0], cur[:, 0])
    assert found.ks_lo[0] <= true.statistic <= found.ks_hi[0] <= found.ks_lo[0] + 1 / 256 + 1e-4
    assert found.ks_sign[0] == 1
    assert found.ks_p[0] == pytest.approx(known.kstwobign.sf(found.ks_lo[0] * 67.55), rel=0.05)
    assert found.psi[0] == pytest.approx(0.2**2, rel=0.25)  # of a shift by 0.2 sigma
    assert found.psi_lower[0] == 0.0  # below the alert's threshold it isn't asked for
    assert found.dispersion[0] == 1.0
    assert found.contributions[0].sum() == found.psi[0]


def test_no_drift_is_calm_at_the_family_level() -> None:
    reference = reference_of(normal(50_000, 50))
    judged = [
        one
        for seed in range(10)
        for one in judge(evaluate(reference, normal(2_000, 50, 10 + seed)), POLICY, 50)
    ]
    assert {one.level for one in judged} == {Level.OK}
    assert max(one.psi for one in judged) < 0.05


@pytest.mark.parametrize(("shift", "level"), [(0.45, Level.ALERT), (1.0, Level.CANDIDATE)])
def test_a_shift_is_judged_by_its_size(shift: float, level: Level) -> None:
    found = verdict(reference_of(normal(50_000)), normal(5_000, seed=2) + np.float32(shift))
    assert found.level is level
    assert "PSI" in found.reasons[0]
    assert "higher" in found.reasons[-1]


def test_a_wider_spread_is_seen_by_psi_and_hardly_by_ks() -> None:
    found = verdict(reference_of(normal(50_000)), normal(5_000, seed=2) * np.float32(1.5))
    assert found.level is Level.ALERT
    assert found.psi > 0.15
    assert found.ks < 0.12


def test_a_small_window_is_not_judged() -> None:
    found = verdict(reference_of(normal(50_000)), normal(90, seed=2) + np.float32(5))
    assert (found.level, found.judged) == (Level.INSUFFICIENT, False)
    assert "are needed" in found.reasons[0]
    reference = reference_of(normal(5))
    assert verdict(reference, normal(10_000)).level is Level.INSUFFICIENT


def test_a_window_without_rows_is_not_judged() -> None:
    reference = reference_of(normal(1_000, 2))
    empty = window_of(reference, np.empty((0, 2), np.float32), 3)
    assert Evaluator(reference, POLICY).evaluate(empty) is None
    judged = judge(None, POLICY, 2)
    assert [one.level for one in judged] == [Level.INSUFFICIENT] * 2


@pytest.mark.parametrize("fault", [np.nan, np.inf, -np.inf])
def test_values_that_say_nothing_are_a_fault_of_their_own(fault: float) -> None:
    cur = normal(1_000, seed=2)
    cur[:600] = fault
    found = verdict(reference_of(normal(50_000)), cur)
    assert found.level is Level.UNUSABLE
    assert "60%" in found.reasons[0]
    cur[:] = fault
    assert verdict(reference_of(normal(50_000)), cur).level is Level.UNUSABLE


def test_the_same_share_missing_as_before_is_no_drift() -> None:
    ref, cur = normal(50_000), normal(2_000, seed=2)
    ref[::2], cur[::2] = np.nan, np.nan
    cur[1:100:2] = np.nan
    assert verdict(reference_of(ref), cur).level is Level.OK


def test_a_constant_that_changes_is_total_drift_and_one_that_stays_none() -> None:
    reference = reference_of(np.ones((1_000, 1), np.float32))
    same = evaluate(reference, np.ones((500, 1), np.float32))
    assert (same.psi[0], same.ks_lo[0], same.ks_hi[0], same.psi_p[0]) == (0, 0, 0, 1)
    above = float(np.nextafter(np.float32(1), np.float32(2)))
    for other in (0.5, above):
        moved = evaluate(reference, np.full((500, 1), other, np.float32))
        assert moved.ks_lo[0] == 1
        assert moved.psi[0] > 5


def test_one_outlier_moves_nothing() -> None:
    ref = normal(50_000)
    cur = normal(1_000, seed=2)
    before = evaluate(reference_of(ref), cur).psi[0]
    cur[0], ref[0] = 1e30, -1e30
    assert abs(evaluate(reference_of(ref), cur).psi[0] - before) < 0.01


def test_a_category_has_psi_and_no_ks() -> None:
    words = Vocabulary(("a", "b", "c"))
    ref = words.codes(["a"] * 600 + ["b"] * 400)[:, None]
    reference = build_reference("m", "1", [Column("zone", words)], ref)
    swapped = evaluate(reference, words.codes((["b"] * 6 + ["a"] * 4) * 100)[:, None])
    assert np.isnan(swapped.ks_lo[0])
    assert judge(swapped, POLICY, 1)[0].level is Level.ALERT
    unseen = evaluate(reference, words.codes(["x"] * 600 + ["c"] * 300 + ["a"] * 100)[:, None])
    assert unseen.unseen[0] == 0.9
    assert judge(unseen, POLICY, 1)[0].level is Level.UNUSABLE
    told = explain(unseen, reference, 0)
    assert told.ks_lo is told.ks_at is None
    assert told.top[0].label == "unseen"


def test_rows_that_resemble_their_neighbours_count_less() -> None:
    chance = np.random.default_rng(3)
    reference = reference_of(normal(50_000))
    noise, series = chance.standard_normal(6_000), np.empty(6_000)
    series[0] = noise[0]
    for i in range(1, len(series)):
        series[i] = 0.97 * series[i - 1] + np.sqrt(1 - 0.97**2) * noise[i]
    found = evaluate(reference, series.astype(np.float32)[:, None], panes=30)
    assert found.dispersion[0] > 5
    assert found.effective_rows[0] == pytest.approx(6_000 / found.dispersion[0])
    assert found.psi_critical[0] > 5 * 35 / 6_000
    alike = evaluate(reference, normal(6_000, seed=4), panes=30)
    assert alike.dispersion[0] < 1.5


def test_a_high_value_of_rows_that_count_as_few_is_no_verdict() -> None:
    rows = np.repeat(normal(30, seed=9), 80, axis=0)  # each value eighty times over
    found = verdict(reference_of(normal(50_000)), rows)
    assert found.psi > 0.1
    assert found.level is Level.UNCLEAR
    assert "may be noise: 2400 rows count as" in found.reasons[0]


@pytest.mark.parametrize("damaged", [0.3, 0.6, 0.9])
def test_a_fault_that_begins_inside_the_window_does_not_hide_itself(damaged: float) -> None:
    cur = normal(6_000, seed=2)
    cur[int(6_000 * (1 - damaged)) :] += 3
    found = judge(evaluate(reference_of(normal(50_000)), cur, panes=60), POLICY, 1)[0]
    assert found.level is Level.CANDIDATE


def test_a_daily_course_is_no_drift_against_its_own_hour() -> None:
    chance = np.random.default_rng(5)
    times = np.arange(240_000, dtype=np.int64) * 3_600  # ten days, 1,000 rows an hour
    course = np.sin(2 * np.pi * times / (24 * HOUR_MS))
    block = (course + chance.normal(0, 0.3, len(times))).astype(np.float32)[:, None]
    window = block[5_000:7_000]  # hours 5 and 6
    plain = reference_of(block)
    slots = SlotPolicy("hour_of_day")
    seasonal = build_reference("m", "1", plain.columns, block, ReferencePolicy(slots=slots), times)
    against_all = evaluate(plain, window, panes=120, start_ms=5 * HOUR_MS)
    against_hours = evaluate(seasonal, window, panes=120, start_ms=5 * HOUR_MS)
    assert against_all.psi[0] > 1
    assert against_hours.psi[0] < 0.02
    assert against_hours.ks_lo[0] < 0.05
    assert against_hours.slots == {6: 0.51, 7: 0.49}
    assert against_hours.reference_rows == pytest.approx(20_000, rel=0.01)


def test_a_slot_with_few_rows_stands_back_for_all_hours() -> None:
    block = normal(1_000)
    times = np.arange(1_000, dtype=np.int64) * 1_000
    policy = ReferencePolicy(slots=SlotPolicy("hour_of_day", min_rows=500))
    reference = build_reference("m", "1", [Column("x")], block, policy, times)
    assert evaluate(reference, block).slots == {1: 1.0}
    assert evaluate(reference, block, start_ms=5 * HOUR_MS).slots == {0: 1.0}


def test_an_explanation_adds_up_and_tells_a_delivery_fault_apart() -> None:
    cur = normal(2_000, seed=2)
    cur[:800] = np.nan
    reference = reference_of(normal(50_000))
    told = explain(evaluate(reference, cur), reference, 0)
    assert sum(one.contribution for one in told.bins) == pytest.approx(told.psi)
    assert sum(one.window for one in told.bins) == pytest.approx(1)
    assert told.psi_present < 0.02 < 1 < told.psi
    assert told.top[0].label == "missing"
    assert told.missing == 0.4
    assert told.ks_lo is not None
    assert told.ks_hi is not None
    assert told.ks_lo <= told.ks_hi < 0.05
