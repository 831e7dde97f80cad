"""Contract: a worker is killed when it makes no progress, restarted with growing pauses, or given up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from models.restart import (
    GiveUp,
    Keep,
    Kill,
    Phase,
    Probe,
    Restart,
    RestartLogic,
    RestartPolicy,
    RestartState,
)
from models.worker_config import (
    EXIT_ADDRESS,
    EXIT_GOLDEN,
    EXIT_LOAD,
    EXIT_OK,
    EXIT_POISONED,
    EXIT_SETTINGS,
)

POLICY = RestartPolicy()
READY, WARMING = Probe(True, 0, 0), Probe(False, 0, 0)
KILLED_BY_9 = -9


def _ready() -> RestartLogic:
    logic = RestartLogic(POLICY)
    logic.started(0)
    assert logic.probed(READY, 1000) == Keep()
    assert logic.state.phase is Phase.READY
    return logic


@pytest.mark.parametrize(
    ("probe", "killed"),
    [
        (Probe(True, 0, 0), False),
        (Probe(True, 1999, 1), False),
        (Probe(True, 2001, 1), True),
        (Probe(True, 4999, 1000), False),
        (Probe(True, 5001, 1000), True),
    ],
)
def test_one_batch_may_take_five_times_its_usual_time_but_the_floor(
    probe: Probe, killed: bool
) -> None:
    verdict = _ready().probed(probe, 2000)
    assert isinstance(verdict, Kill) == killed


def test_silence_kills_only_when_it_lasts() -> None:
    logic = _ready()
    assert [logic.probed(None, t) for t in (2000, 3000)] == [Keep(), Keep()]
    assert logic.probed(READY, 4000) == Keep()
    assert [logic.probed(None, t) for t in (5000, 6000)] == [Keep(), Keep()]
    assert isinstance(logic.probed(None, 7000), Kill)
    assert logic.probed(None, 8000) == Keep()  # it is dying already


def test_a_start_may_be_silent_for_long_but_not_for_ever() -> None:
    logic = RestartLogic(POLICY)
    logic.started(0)
    assert [logic.probed(p, 179_000) for p in (None, None, None, WARMING)] == [Keep()] * 4
    assert isinstance(logic.probed(WARMING, 181_000), Kill)


def test_pauses_double_up_to_a_limit_and_jitter_only_shortens_them() -> None:
    logic = RestartLogic(POLICY)
    pauses = []
    for turn in range(12):
        logic.started(turn)
        verdict = logic.exited(KILLED_BY_9, turn, 0.0)
        assert isinstance(verdict, Restart)
        pauses.append(verdict.pause_ms)
    assert pauses[:4] == [100, 200, 400, 800]
    assert pauses[-1] == 30_000
    logic.started(0)
    assert logic.exited(KILLED_BY_9, 0, 0.5) == Restart(22_500)


def test_a_worker_that_served_for_long_starts_again_soon() -> None:
    logic = RestartLogic(POLICY, RestartState(failures=9))
    logic.started(0)
    logic.probed(READY, 1000)
    assert logic.exited(KILLED_BY_9, 62_000, 0.0) == Restart(100)
    logic.started(62_000)
    assert logic.exited(KILLED_BY_9, 200_000, 0.0) == Restart(200)  # it was never ready


def test_a_poisoned_device_is_left_at_once_but_not_in_a_circle() -> None:
    logic = _ready()
    assert logic.exited(EXIT_POISONED, 2000, 0.0) == Restart(0)
    logic.started(2000)
    assert logic.exited(EXIT_POISONED, 3000, 0.0) == Restart(200)


@pytest.mark.parametrize("code", [EXIT_OK, EXIT_SETTINGS, EXIT_GOLDEN, EXIT_LOAD])
def test_what_would_end_the_same_way_is_not_tried_again(code: int) -> None:
    assert _ready().exited(code, 2000, 0.0) == GiveUp(code)


@pytest.mark.parametrize("code", [1, EXIT_ADDRESS, EXIT_POISONED, -9, -11])
def test_what_may_pass_is_tried_again(code: int) -> None:
    assert isinstance(_ready().exited(code, 2000, 0.0), Restart)


# (phase, event) -> phase after it; the whole table.
_EVENTS: dict[str, Callable[[RestartLogic], object]] = {
    "started": lambda logic: logic.started(1000),
    "ready": lambda logic: logic.probed(READY, 1000),
    "stalled": lambda logic: logic.probed(Probe(True, 1e6, 1), 1000),
    "exited": lambda logic: logic.exited(KILLED_BY_9, 1000, 0.0),
}
_AFTER = {
    (Phase.STOPPED, "started"): Phase.STARTING,
    (Phase.STOPPED, "ready"): Phase.STOPPED,
    (Phase.STOPPED, "stalled"): Phase.STOPPED,
    (Phase.STARTING, "started"): Phase.STARTING,
    (Phase.STARTING, "ready"): Phase.READY,
    (Phase.STARTING, "stalled"): Phase.KILLED,
    (Phase.READY, "started"): Phase.STARTING,
    (Phase.READY, "ready"): Phase.READY,
    (Phase.READY, "stalled"): Phase.KILLED,
    (Phase.KILLED, "started"): Phase.STARTING,
    (Phase.KILLED, "ready"): Phase.KILLED,
    (Phase.KILLED, "stalled"): Phase.KILLED,
    **{(phase, "exited"): Phase.STOPPED for phase in Phase},
}


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, _EVENTS)))
def test_every_event_in_every_phase(phase: Phase, event: str) -> None:
    logic = RestartLogic(POLICY, RestartState(phase=phase))
    _EVENTS[event](logic)
    assert logic.state.phase is _AFTER[phase, event]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"stall_factor": 0.5}, "at least 1"),
        ({"stall_floor_ms": 0.0}, "positive"),
        ({"silent_probes": 0}, "at least 1"),
        ({"first_pause_ms": 0.0}, "first_pause_ms"),
        ({"longest_pause_ms": 1.0}, "longest_pause_ms"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(values: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RestartPolicy(**values)  # type: ignore[arg-type]
