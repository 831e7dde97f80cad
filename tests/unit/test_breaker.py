"""Contract: the breaker's table is whole, and a worker that fails is left alone for a while."""

from __future__ import annotations

from itertools import product

from operators.breaker import TRANSITIONS, Breaker, BreakerEvent, BreakerState


def test_every_event_has_a_transition_in_every_state() -> None:
    assert set(TRANSITIONS) == set(product(BreakerState, BreakerEvent))


def test_it_opens_after_enough_failures_in_a_row_and_probes_once() -> None:
    breaker = Breaker(failures=3, open_ms=100)
    breaker.failure(0)
    breaker.failure(1)
    breaker.success(2)
    breaker.failure(3)
    breaker.failure(4)
    assert breaker.allows(5, in_flight=1)
    breaker.failure(5)
    assert not breaker.allows(104, in_flight=0)
    assert breaker.allows(105, in_flight=0)
    assert not breaker.allows(105, in_flight=1)
    breaker.success(106)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.allows(107, in_flight=1)


def test_a_failed_probe_opens_it_again_for_as_long() -> None:
    breaker = Breaker(failures=1, open_ms=100)
    breaker.failure(0)
    assert breaker.allows(100, in_flight=0)
    breaker.failure(110)
    assert not breaker.allows(209, in_flight=0)
    assert breaker.allows(210, in_flight=0)
