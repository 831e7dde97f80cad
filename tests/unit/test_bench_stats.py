"""The sums of the benches: a wrong quantile or a schedule that gives way would flatter every figure."""

from __future__ import annotations

import pytest

from bench.kit.stats import Schedule, quantile, steady_rate, theil_sen


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)]
)
def test_a_quantile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    assert quantile(list(range(1, 101)), share) == expected


def test_a_quantile_of_one_value_is_that_value() -> None:
    assert quantile([7.0], 0.99) == 7.0


def test_no_values_have_no_quantile() -> None:
    with pytest.raises(ValueError, match="nothing was answered"):
        quantile([], 0.5)


def test_one_jump_does_not_move_the_slope() -> None:
    points = [(float(x), 3.0 * x) for x in range(20)]
    points[7] = (7.0, 1e6)
    assert theil_sen(points) == pytest.approx(3.0)


def test_a_step_in_the_last_sample_is_no_trend() -> None:
    assert theil_sen([(float(x), 5.0) for x in range(19)] + [(19.0, 500.0)]) == 0.0


@pytest.mark.parametrize("points", [[], [(1.0, 1.0)], [(1.0, 1.0), (1.0, 2.0)]])
def test_a_slope_needs_two_places(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="two points"):
        theil_sen(points)


def test_the_steady_rate_leaves_out_a_slow_start_and_a_slow_end() -> None:
    start = [(0.0, 0), (10.0, 100)]
    middle = [(10.0 + second, 100 + 100 * second) for second in range(1, 9)]
    end = [(30.0, 950), (60.0, 1000)]
    assert steady_rate(start + middle + end, 1000) == pytest.approx(100.0)


def test_the_steady_rate_reads_between_samples() -> None:
    assert steady_rate([(0.0, 0), (3.0, 300), (7.0, 700), (10.0, 1000)], 1000) == pytest.approx(
        100.0
    )


def test_samples_that_end_early_give_no_rate() -> None:
    with pytest.raises(ValueError, match="no samples around 850"):
        steady_rate([(0.0, 0), (5.0, 500)], 1000)


def test_a_drain_between_two_samples_gives_no_rate() -> None:
    with pytest.raises(ValueError, match="take more records"):
        steady_rate([(1.0, 0), (1.0, 1000)], 1000)


def test_arrivals_are_evenly_spaced_whatever_happens() -> None:
    schedule = Schedule.lasting(rate=120, seconds=10)
    assert schedule.count == 1200
    assert [schedule.due_s(n) for n in (0, 60, 1199)] == pytest.approx([0.0, 0.5, 1199 / 120])


def test_a_late_look_finds_all_that_was_due_meanwhile() -> None:
    schedule = Schedule.lasting(rate=1000, seconds=2)
    assert [schedule.due(s) for s in (-0.1, 0.0, 0.0995, 1.0, 5.0)] == [0, 1, 100, 1001, 2000]


def test_every_arrival_is_due_at_its_time() -> None:
    schedule = Schedule.lasting(rate=500, seconds=1)
    for number in range(schedule.count):
        assert schedule.due(schedule.due_s(number) + 1e-9) == number + 1


def test_even_a_tiny_run_has_an_arrival() -> None:
    assert Schedule.lasting(rate=1, seconds=0.1).count == 1
