"""Whatever the verdicts: replays say nothing, restarts change nothing, the cap holds, lanes agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drift.control import Command, ControlState
from drift.events import Event, Request
from drift.freeze import FreezeLogic
from drift.judge import Judgement, Level
from drift.policy import DriftPolicy
from drift.states import StreamState

POLICY = DriftPolicy(window_ms=4, slide_ms=1, max_frozen_ms=9)
NAMES = tuple(f"f{i}" for i in range(7))
LIMIT = POLICY.frozen_limit(len(NAMES))

VERDICTS = st.sampled_from(
    [
        Judgement(Level.OK, 0.01),
        Judgement(Level.OK, 0.09),
        Judgement(Level.ALERT, 0.2),
        Judgement(Level.CANDIDATE, 0.4),
        Judgement(Level.UNUSABLE, 2.0),
        Judgement(Level.INSUFFICIENT),
        Judgement(Level.UNCLEAR, 0.3),
    ]
)
WINDOWS = st.lists(st.lists(VERDICTS, min_size=7, max_size=7), max_size=30)
COMMANDS = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(Command), st.sampled_from(NAMES)), max_size=6
)


def run(
    logic: FreezeLogic,
    windows: list[list[Judgement]],
    commands: list[tuple[int, Command, str]],
    begin: int = 0,
) -> list[Event]:
    events = []
    for now, verdicts in enumerate(windows[begin:], begin):
        events += logic.step(verdicts, now)
        for i, (at, command, name) in enumerate(commands):
            if at == now:
                events += logic.obey(Request(str(i), command, name, "ann", "why"), now)
    return events


@given(WINDOWS)
def test_the_policy_alone_never_freezes_beyond_the_cap(windows: list[list[Judgement]]) -> None:
    logic = FreezeLogic(POLICY, NAMES)
    for now, verdicts in enumerate(windows):
        events = logic.step(verdicts, now)
        assert len(logic.frozen) <= LIMIT
        assert all(event.old is not event.new for event in events)


@given(WINDOWS, COMMANDS, st.integers(0, 30))
def test_a_restart_changes_nothing(
    windows: list[list[Judgement]], commands: list[tuple[int, Command, str]], cut: int
) -> None:
    straight = FreezeLogic(POLICY, NAMES)
    expected = run(straight, windows, commands)
    first = FreezeLogic(POLICY, NAMES)
    events = run(first, windows[:cut], commands)
    second = FreezeLogic(POLICY, NAMES, StreamState.decode(first.state.encode()))
    events += run(second, windows, commands, begin=cut)
    assert events == expected
    assert second.state == straight.state


@given(WINDOWS, COMMANDS)
def test_a_replay_of_everything_says_nothing(
    windows: list[list[Judgement]], commands: list[tuple[int, Command, str]]
) -> None:
    logic = FreezeLogic(POLICY, NAMES)
    run(logic, windows, commands)
    before = logic.state.encode()
    assert run(logic, windows, commands) == []
    assert logic.state.encode() == before


@given(WINDOWS, COMMANDS, st.randoms(use_true_random=False))
def test_lanes_agree_with_the_policy_in_any_order_of_messages(
    windows: list[list[Judgement]],
    commands: list[tuple[int, Command, str]],
    chance: st.DataObject,
) -> None:
    logic, lane = FreezeLogic(POLICY, NAMES), ControlState()
    events = run(logic, windows, commands)
    messages = [m for event in events if (m := event.control({})) is not None]
    assert [m.version for m in messages] == list(range(1, len(messages) + 1))
    chance.shuffle(messages)  # type: ignore[attr-defined]
    for message in messages:
        lane.apply(message.encode())
    assert lane.frozen == logic.frozen
    fresh = FreezeLogic(POLICY, NAMES)
    fresh.adopt(lane.commands, 100)
    assert fresh.frozen == logic.frozen
