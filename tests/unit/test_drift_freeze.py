"""What the freeze policy does with time, a cap, a gap and a person's word."""

from __future__ import annotations

import pytest

from drift.control import GLOBAL, Command, ControlState
from drift.events import Event, Request
from drift.freeze import FreezeLogic
from drift.judge import Judgement, Level
from drift.policy import DriftPolicy
from drift.states import Status, StreamState, Trigger
from tidemill.errors import ContractError, SettingsError

MINUTE = 60_000
POLICY = DriftPolicy(window_ms=10 * MINUTE, slide_ms=MINUTE, max_frozen_ms=30 * MINUTE)
OK = Judgement(Level.OK, 0.01)
WARM = Judgement(Level.OK, 0.09)
ALERT = Judgement(Level.ALERT, 0.15)
CANDIDATE = Judgement(Level.CANDIDATE, 0.5, reasons=("PSI 0.5",))
UNUSABLE = Judgement(Level.UNUSABLE, 3.0)
NONE = Judgement(Level.INSUFFICIENT)


class Run:
    """A logic with a clock that moves a slide a step."""

    def __init__(self, names: int = 1, policy: DriftPolicy = POLICY) -> None:
        self.logic = FreezeLogic(policy, [f"f{i}" for i in range(names)])
        self.now_ms = 0
        self.events: list[Event] = []

    def step(self, *verdicts: Judgement, times: int = 1) -> Run:
        for _ in range(times):
            self.now_ms += POLICY.slide_ms
            self.events += self.logic.step(verdicts, self.now_ms)
        return self

    def ask(self, command: Command, feature: str = "f0", name: str = "") -> Run:
        request = Request(name or str(len(self.events)), command, feature, "ann", "because", "r2")
        self.events += self.logic.obey(request, self.now_ms)
        return self

    def status(self) -> Status:
        return self.logic.state.features["f0"].status

    @property
    def changes(self) -> list[Status]:
        return [event.new for event in self.events]

    def frozen(self) -> tuple[str, ...]:
        return self.logic.frozen

    def served(self) -> tuple[str, ...]:
        """What lanes that read all control messages hold frozen."""
        state = ControlState()
        for event in self.events:
            message = event.control({"kind": "baseline"})
            if message:
                state.apply(message.encode())
        return state.frozen


def test_a_freeze_needs_half_a_window() -> None:
    run = Run().step(CANDIDATE, times=5)
    assert run.status() is Status.ALERT
    run.step(CANDIDATE)
    assert run.changes == [Status.ALERT, Status.FROZEN]
    assert run.events[-1].why == "PSI 0.5"
    assert run.served() == ("f0",)


def test_one_window_below_starts_the_time_again() -> None:
    run = Run().step(CANDIDATE, times=5).step(ALERT).step(CANDIDATE, times=5)
    assert run.status() is Status.ALERT
    assert run.step(CANDIDATE).status() is Status.FROZEN


def test_unusable_values_freeze_at_once() -> None:
    assert Run().step(UNUSABLE).status() is Status.FROZEN


def test_an_alert_never_freezes_however_long_it_lasts() -> None:
    assert Run().step(ALERT, times=100).changes == [Status.ALERT]


def test_a_freeze_ends_after_half_a_window_of_calm_only() -> None:
    run = Run().step(UNUSABLE).step(WARM, times=5)
    assert run.status() is Status.FROZEN
    run.step(ALERT).step(WARM, times=5)
    assert run.status() is Status.FROZEN
    run.step(WARM)
    assert run.status() is Status.OK
    assert run.served() == ()
    assert run.step(UNUSABLE).status() is Status.FROZEN


def test_an_alert_clears_below_its_own_lower_threshold() -> None:
    run = Run().step(ALERT).step(WARM, times=50)
    assert run.status() is Status.ALERT
    high_ks = Judgement(Level.OK, 0.01, ks=0.09)
    assert run.step(high_ks, times=50).status() is Status.ALERT
    assert run.step(OK, times=6).status() is Status.OK


def test_windows_without_rows_neither_freeze_nor_release() -> None:
    run = Run().step(CANDIDATE).step(NONE, times=20).step(CANDIDATE, times=4)
    assert run.status() is Status.ALERT
    assert run.step(CANDIDATE).status() is Status.FROZEN
    run.step(NONE, times=20)
    assert run.status() is Status.FROZEN


def test_a_healthy_feature_without_rows_is_not_called_ok() -> None:
    run = Run().step(OK).step(NONE)
    assert run.changes == [Status.OK, Status.INSUFFICIENT]
    assert run.served() == ()
    assert all(event.control({}) is None for event in run.events)


def test_a_window_that_is_unclear_changes_nothing() -> None:
    unclear = Judgement(Level.UNCLEAR, 0.3)
    for before in (OK, ALERT, UNUSABLE, NONE):
        run = Run().step(before)
        status = run.status()
        assert run.step(unclear, times=10).status() is status
    assert Run().step(CANDIDATE).step(unclear, times=20).step(OK).status() is Status.ALERT


def test_a_long_freeze_escalates_and_stays_frozen() -> None:
    run = Run().step(UNUSABLE, times=31)
    assert run.changes == [Status.FROZEN, Status.ESCALATED]
    assert run.served() == ("f0",)
    assert run.step(OK, times=6).status() is Status.OK
    assert Run().step(UNUSABLE).step(NONE, times=30).status() is Status.ESCALATED


def test_too_many_at_once_are_one_alarm_and_no_freeze() -> None:
    run = Run(names=10).step(*[UNUSABLE] * 4, *[OK] * 6)
    assert not run.frozen()
    (alarm,) = [event for event in run.events if event.feature == GLOBAL]
    assert (alarm.new, alarm.trigger) == (Status.ESCALATED, Trigger.BROKEN)
    assert alarm.control({}) is None
    assert "4 more" in alarm.why
    run.step(*[UNUSABLE] * 4, *[OK] * 6, times=20)
    assert not run.frozen()
    assert sum(event.feature == GLOBAL for event in run.events) == 1
    run.step(*[UNUSABLE] * 3, *[OK] * 7)
    assert run.frozen() == ("f0", "f1", "f2")
    run.step(*[UNUSABLE] * 3, *[OK] * 7, times=6)
    assert [e.new for e in run.events if e.feature == GLOBAL] == [Status.ESCALATED, Status.OK]


def test_those_frozen_before_count_towards_the_cap() -> None:
    run = Run(names=10).step(*[UNUSABLE] * 3, *[OK] * 7).step(*[UNUSABLE] * 4, *[OK] * 6)
    assert run.logic.frozen == ("f0", "f1", "f2")


def test_a_person_freezes_and_only_a_person_releases() -> None:
    run = Run().step(OK).ask(Command.FREEZE).step(OK, times=40)
    assert run.status() is Status.ESCALATED
    assert run.served() == ("f0",)
    run.ask(Command.RELEASE)
    assert run.status() is Status.OK
    assert run.served() == ()
    assert [(event.who, event.why) for event in run.events if event.who != "drift"] == [
        ("ann", "because")
    ] * 2


def test_a_pinned_feature_is_never_frozen_by_itself() -> None:
    run = Run().step(OK).ask(Command.PIN).step(UNUSABLE, times=20)
    assert run.status() is Status.ALERT
    assert run.served() == ()
    assert run.ask(Command.RELEASE).step(UNUSABLE).status() is Status.FROZEN


def test_a_pinned_frozen_feature_stays_frozen() -> None:
    run = Run().step(UNUSABLE).ask(Command.PIN).step(OK, times=20)
    assert run.status() is Status.FROZEN
    assert run.served() == ("f0",)


def test_a_release_gives_the_feature_its_full_time_again() -> None:
    run = Run().step(CANDIDATE, times=6).ask(Command.RELEASE).step(CANDIDATE, times=5)
    assert run.status() is Status.ALERT
    assert run.step(CANDIDATE).status() is Status.FROZEN


def test_a_rebase_ends_the_freeze_and_names_its_reference() -> None:
    run = Run().step(UNUSABLE).ask(Command.REBASE)
    assert run.status() is Status.INSUFFICIENT
    assert run.logic.state.features["f0"].reference == "r2"
    message = run.events[-1].control({})
    assert message is not None
    assert message.strategy["reference"] == "r2"
    assert run.served() == ()


def test_a_command_for_all_reaches_each_feature() -> None:
    run = Run(names=3).step(UNUSABLE, OK, OK).ask(Command.RELEASE, GLOBAL)
    assert run.logic.frozen == ()
    assert [e.feature for e in run.events if e.who == "ann"] == ["f0", "f1", "f2"]


def test_a_command_sent_twice_acts_once() -> None:
    run = Run().ask(Command.FREEZE, name="same").ask(Command.FREEZE, name="same")
    assert len(run.events) == 1


def test_commands_need_a_watched_feature_a_who_and_a_why() -> None:
    logic = Run().logic
    with pytest.raises(ContractError, match="name one of f0"):
        logic.obey(Request("1", Command.PIN, "nope", "ann", "because"), 0)
    with pytest.raises(ContractError, match="who and a why"):
        logic.obey(Request("1", Command.PIN, "f0", "ann", ""), 0)


def test_versions_rise_and_a_replayed_window_says_nothing() -> None:
    run = Run().step(UNUSABLE).step(OK, times=6).step(UNUSABLE)
    versions = [event.version for event in run.events if event.command]
    assert versions == [1, 2, 3]
    assert run.logic.step([OK], run.now_ms) == []
    assert run.logic.step([OK], run.now_ms - 1) == []


def test_a_restored_logic_goes_on_alike() -> None:
    run = Run().step(CANDIDATE, times=4)
    state = StreamState.decode(run.logic.state.encode())
    again = FreezeLogic(POLICY, ["f0"], state)
    for now_ms in range(5 * MINUTE, 8 * MINUTE, MINUTE):
        assert again.step([CANDIDATE], now_ms) == run.logic.step([CANDIDATE], now_ms)
    assert again.frozen == ("f0",)


def test_a_start_without_a_checkpoint_takes_over_the_control_topic() -> None:
    run = Run(names=3).step(UNUSABLE, OK, OK).ask(Command.PIN, "f1").ask(Command.FREEZE, "f2")
    topic = ControlState()
    for event in run.events:
        message = event.control({})
        if message:
            topic.apply(message.encode())
    again = FreezeLogic(POLICY, run.logic.names)
    again.adopt(topic.commands, run.now_ms)
    assert again.frozen == run.logic.frozen == ("f0", "f2")
    assert [f.pinned for f in again.state.features.values()] == [False, True, True]
    assert again.state.version == run.logic.state.version


def test_a_lost_control_topic_is_written_again() -> None:
    run = Run(names=3).step(UNUSABLE, OK, OK).ask(Command.PIN, "f1").ask(Command.FREEZE, "f2")
    topic = ControlState()
    for message in run.logic.commands({"kind": "baseline"}):
        topic.apply(message.encode())
    assert topic.frozen == run.served() == ("f0", "f2")
    assert topic.commands["f0"].strategy["kind"] == "baseline"


def test_features_that_come_and_go_keep_the_states_of_the_others() -> None:
    run = Run(names=2).step(UNUSABLE, OK)
    again = FreezeLogic(POLICY, ["f0", "new"], run.logic.state)
    assert again.frozen == ("f0",)
    assert again.state.features["new"].status is Status.INSUFFICIENT


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"alert_psi": 0.3}, "alert_psi 0.3"),
        ({"ks_clear": 0.0}, "above 0"),
        ({"family_alpha": 1.0}, "between 0 and 1"),
        ({"slide_ms": 0}, "slide_ms 0"),
        ({"calm_ms": -1}, "negative"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        DriftPolicy(**wrong)  # type: ignore[arg-type]
