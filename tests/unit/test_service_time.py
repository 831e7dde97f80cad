"""Contract: the service time of a bucket follows what the worker measures, and knows its spread."""

from __future__ import annotations

import pytest

from operators.service_time import ServiceTimes


def _times() -> ServiceTimes:
    return ServiceTimes.from_warm_up((8, 1, 64), {1: 1000.0, 8: 2000.0, 64: 8000.0})


@pytest.mark.parametrize(("rows", "bucket"), [(1, 1), (2, 8), (8, 8), (9, 64), (64, 64), (500, 64)])
def test_a_batch_takes_the_time_of_its_bucket(rows: int, bucket: int) -> None:
    assert _times().bucket(rows) == bucket


def test_it_follows_a_worker_that_got_slower() -> None:
    times = _times()
    before = times.expected_ms(8)
    for _ in range(60):
        times.observe(8, 6.0)
    assert before < 4
    assert times.expected_ms(8) == pytest.approx(6.0, rel=0.05)
    assert times.expected_ms(1) < 2


def test_spread_makes_it_careful() -> None:
    steady, jittery = _times(), _times()
    for turn in range(80):
        steady.observe(8, 2.0)
        jittery.observe(8, 1.0 if turn % 2 else 3.0)
    assert jittery.expected_ms(8) > steady.expected_ms(8) + 1


def test_an_unknown_bucket_changes_nothing() -> None:
    times = _times()
    times.observe(7, 500.0)
    assert times.expected_ms(8) < 4
