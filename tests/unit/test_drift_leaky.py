"""The given rule does what its formula says, inside its bounds, once a label."""

from __future__ import annotations

import math

import numpy as np
import pytest

from drift.leaky import (
    LeakyPolicy,
    LeakyWeight,
    critical_gain,
    fresh_error,
    residual,
    stable_for_all_delays,
)
from tidemill.errors import SettingsError


def test_a_label_counts_once_and_moves_a_bounded_step() -> None:
    weight = LeakyWeight(LeakyPolicy())
    assert weight.learn("a", 1000.0, 1.0)
    assert not weight.learn("a", 1000.0, 1.0)
    assert weight.weight == 0.005


@pytest.mark.parametrize(("error", "importance"), [(math.nan, 1), (math.inf, 1), (1, -1)])
def test_an_impossible_label_changes_nothing(error: float, importance: float) -> None:
    assert LeakyPolicy().step(0.3, error, importance) == 0.3


def test_the_weight_stays_in_its_bounds() -> None:
    policy, weight = LeakyPolicy(alpha=0.5), 0.0
    for _ in range(100):
        weight = policy.step(weight, 1.0, 1.0)
    assert weight == policy.max_weight


def test_a_closed_loop_leaves_two_thirds() -> None:
    weight, policy = 0.0, LeakyPolicy()
    for _ in range(5_000):
        weight = policy.step(weight, 0.3 - weight, 1.0)
    assert (0.3 - weight) / 0.3 == pytest.approx(residual(0.005, 0.01)) == pytest.approx(2 / 3)


@pytest.mark.parametrize("delay", [0, 1, 2, 5, 20, 100])
def test_the_critical_gain_is_where_a_root_leaves_the_circle(delay: int) -> None:
    def largest_root(gain: float) -> float:
        polynomial = np.zeros(delay + 2)
        polynomial[0] = 1.0
        polynomial[1] -= 0.99
        polynomial[-1] += gain
        return float(np.abs(np.roots(polynomial)).max())

    limit = critical_gain(0.01, delay)
    assert largest_root(limit * 0.999) < 1 < largest_root(limit * 1.001)
    assert limit > 0.01
    assert not stable_for_all_delays(limit, 0.01)


def test_a_fresh_error_knows_the_calibration_of_now() -> None:
    assert fresh_error(1.0, 0.0, 0.0) == 0.5
    assert fresh_error(1.0, 0.0, 10.0) < 1e-4


def test_a_rule_that_cant_be_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"decay 1\.5"):
        LeakyPolicy(decay=1.5)
    with pytest.raises(SettingsError, match="above 0"):
        LeakyPolicy(clip_error=0)
