"""Contract: clients that lose a service at the same moment do not come back at the same moment."""

from __future__ import annotations

import random

from tidemill.backoff import BackOff


def pauses(seed: int, failures: int) -> list[int]:
    backoff = BackOff(chance=random.Random(seed))
    return [backoff.failed(0) for _ in range(failures)]


def test_pauses_double_up_to_the_longest_and_never_fall_below_half() -> None:
    for pause, full in zip(
        pauses(1, 12), [25, 50, 100, 200, 400, 800, 1600] + [2000] * 5, strict=True
    ):
        assert full / 2 <= pause <= full


def test_a_long_outage_changes_nothing() -> None:
    assert all(1000 <= pause <= 2000 for pause in pauses(1, 10_000)[10:])


def test_200_clients_spread_over_the_pause() -> None:
    """redis_connection_storm: the fullest tenth of the pause has no more than twice its share."""
    tenths = [0] * 10
    for seed in range(200):
        tenths[min(9, (pauses(seed, 8)[-1] - 1000) // 100)] += 1
    assert max(tenths) <= 40


def test_ready_after_the_pause_and_at_once_after_success() -> None:
    backoff = BackOff()
    assert backoff.ready(0)
    pause = backoff.failed(1_000)
    assert not backoff.ready(1_000 + pause - 1)
    assert backoff.ready(1_000 + pause)
    backoff.succeeded()
    assert backoff.ready(0)
    assert backoff.failed(0) <= 25
