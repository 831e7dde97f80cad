"""Contract: the highest version counts, whatever the order; nothing a message holds is fatal."""

from __future__ import annotations

from itertools import permutations

import orjson
import pytest

from drift.control import Command, ControlMessage, ControlState, Outcome
from tidemill.errors import ContractError


def message(version: int, command: str = "freeze", feature: str = "eta_min") -> bytes:
    return ControlMessage(version, command, feature, {"at": 0.5}, "psi 0.4", "drift").encode()


def test_a_new_state_has_nothing_frozen() -> None:
    state = ControlState()
    assert (state.version, state.frozen, dict(state.commands)) == (0, (), {})


def test_a_lower_or_equal_version_is_ignored() -> None:
    state = ControlState()
    assert state.apply(message(8, "release")).outcome is Outcome.APPLIED
    assert state.apply(message(7, "freeze")).outcome is Outcome.IGNORED
    assert state.apply(message(8, "freeze")).outcome is Outcome.IGNORED
    assert (state.version, state.frozen) == (8, ())


def test_features_do_not_hide_each_others_commands() -> None:
    state = ControlState()
    state.apply(message(9, "freeze", "b"))
    assert state.apply(message(4, "freeze", "a")).outcome is Outcome.APPLIED
    assert (state.version, state.frozen) == (9, ("a", "b"))


def test_the_state_does_not_depend_on_order_or_repetition() -> None:
    messages = [
        message(1, "freeze", "a"), message(2, "freeze", "b"), message(3, "release", "global"),
        message(4, "freeze", "a"), message(5, "pin", "c"),
    ]  # fmt: skip
    for order in permutations(messages):
        state = ControlState()
        for raw in (*order, *order[::-1]):
            state.apply(raw)
        assert (state.version, state.frozen) == (5, ("a",))
        assert {n: m.version for n, m in state.commands.items()} == {
            "a": 4,
            "b": 2,
            "c": 5,
            "global": 3,
        }


def test_a_freeze_of_all_is_named() -> None:
    state = ControlState()
    state.apply(message(1, "freeze", "global"))
    assert list(state.frozen) == ["global"]
    state.apply(message(2, "release", "global"))
    assert not state.frozen


@pytest.mark.parametrize("command", list(Command))
def test_every_command_is_parsed(command: Command) -> None:
    state = ControlState()
    assert state.apply(message(3, command)).counter == "control_applied"
    assert state.commands["eta_min"] == ControlMessage(
        3, command.value, "eta_min", {"at": 0.5}, "psi 0.4", "drift"
    )


def test_an_unknown_command_is_reported_and_changes_nothing() -> None:
    state = ControlState()
    applied = state.apply(message(9, "defrost"))
    assert applied.counter == "control_unknown"
    assert "'defrost'" in applied.message
    assert "upgrade" in applied.message
    assert state.version == 0


GOOD = orjson.loads(message(5))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not a JSON object"),
        (orjson.dumps({**GOOD, "v": 2}), "has v 2"),
        (orjson.dumps({**GOOD, "version": "5"}), "version '5'"),
        (orjson.dumps({**GOOD, "version": True}), "version True"),
        (orjson.dumps({**GOOD, "version": 0}), "version 0"),
        (orjson.dumps({**GOOD, "version": 2**53 + 1}), "from 1 to"),
        (orjson.dumps({**GOOD, "command": None}), "command None"),
        (orjson.dumps({**GOOD, "feature": ""}), "feature ''"),
        (orjson.dumps({**GOOD, "why": 3}), "why 3"),
        (orjson.dumps({**GOOD, "strategy": [1]}), "strategy"),
    ],
)
def test_a_malformed_message_is_counted_with_its_fault(raw: bytes, says: str) -> None:
    state = ControlState()
    applied = state.apply(raw)
    assert applied.counter == "control_bad"
    assert says in applied.message
    assert (state.version, state.frozen) == (0, ())


def test_a_delete_marker_is_ignored() -> None:
    assert ControlState().apply(None).counter == "control_ignored"


def test_a_snapshot_restores_the_state() -> None:
    state = ControlState()
    for raw in (message(3), message(4, "pin", "b"), message(6, "freeze", "c")):
        state.apply(raw)
    again = ControlState.restore(state.snapshot())
    assert (again.version, again.frozen, again.commands) == (6, ("c", "eta_min"), state.commands)
    assert again.apply(message(5, "release", "c")).outcome is Outcome.IGNORED


def test_the_first_snapshot_version_is_read() -> None:
    old = (
        b'{"schema_version":1,"latest":[{"version":3,"command":"freeze","feature":"x",'
        b'"strategy":{},"why":"w","who":"d"}]}'
    )
    assert ControlState.restore(old).frozen == ("x",)
    with pytest.raises(ContractError, match="version 2"):
        ControlState.restore(b'{"schema_version":2,"latest":[]}')
