"""The freeze policy: verdicts of windows become states, with time, a cap and a person's word.

Pure: a step depends on the state, the verdicts and the time given.  The caller writes the events it
returns, and keeps `FreezeLogic.state` in its checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from drift.control import GLOBAL, Command, ControlMessage
from drift.events import AUTOMATIC, Event, Request
from drift.judge import Judgement, Level
from drift.policy import DriftPolicy
from drift.states import MAX_REQUESTS, TRANSITIONS, FeatureState, Status, StreamState, Trigger
from tidemill.errors import ContractError


class FreezeLogic:
    """Steps the states of the features ``names``; ``state`` is that of a checkpoint, or new."""

    def __init__(
        self, policy: DriftPolicy, names: Sequence[str], state: StreamState | None = None
    ) -> None:
        self.policy = policy
        self.names = tuple(names)
        self.state = state or StreamState()
        known = self.state.features
        self.state.features = {name: known.get(name, FeatureState()) for name in self.names}

    @property
    def frozen(self) -> tuple[str, ...]:
        """Features that are served by their degraded strategy, in order."""
        return tuple(n for n in self.names if self.state.features[n].status.is_frozen)

    def step(self, verdicts: Sequence[Judgement], now_ms: int) -> list[Event]:
        """Take the verdicts of the window that ends at ``now_ms``, one a feature in order.

        A window at or before the last one is a replay and changes nothing.
        """
        last = self.state.evaluated_ms
        if last is not None and now_ms <= last:
            return []
        self.state.evaluated_ms = now_ms
        by_name = dict(zip(self.names, verdicts, strict=True))
        triggers = {name: self._trigger(name, by_name[name], now_ms) for name in self.names}
        wanted = [name for name in self.names if self._wants_freeze(name, triggers[name])]
        capped = len(self.frozen) + len(wanted) > self.policy.frozen_limit(len(self.names))
        events = self._watch_cap(bool(wanted) and capped, wanted, now_ms)
        if capped:
            triggers.update(dict.fromkeys(wanted, Trigger.ALARMED))
        for name in self.names:
            events += self._automatic(name, triggers[name], by_name[name], now_ms)
        return events

    def obey(self, request: Request, now_ms: int) -> list[Event]:
        """Carry out a person's command; one event a feature.  A known id changes nothing.

        Raises ContractError for a feature that isn't watched or without a who and a why.
        """
        if request.id in self.state.requests:
            return []
        if not request.who or not request.why:
            raise ContractError(f"{request.command} needs a who and a why: they go into the event")
        if request.feature != GLOBAL and request.feature not in self.state.features:
            raise ContractError(
                f"feature {request.feature!r} is not watched: name one of {', '.join(self.names)}"
            )
        self.state.requests = [*self.state.requests, request.id][-MAX_REQUESTS:]
        names = self.names if request.feature == GLOBAL else (request.feature,)
        return [self._commanded(name, request, now_ms) for name in names]

    def adopt(self, commands: Mapping[str, ControlMessage], now_ms: int) -> None:
        """Take over what a control topic says, after a start without a checkpoint."""
        for name, message in commands.items():
            self.state.version = max(self.state.version, message.version)
            feature = self.state.features.get(name)
            if feature is None or message.version <= feature.version:
                continue
            feature.version = message.version
            by_person = message.command == Command.FREEZE and message.who != AUTOMATIC
            feature.pinned = by_person or message.command == Command.PIN
            feature.reference = str(message.strategy.get("reference", ""))
            self._enter(feature, Status.FROZEN if message.freezes else feature.status, now_ms)

    def commands(self, strategy: Mapping[str, object]) -> Iterable[ControlMessage]:
        """What a control topic that was lost has to say again: the same versions, the same effect."""
        for name in self.names:
            feature = self.state.features[name]
            if feature.version and (feature.status.is_frozen or feature.pinned):
                frozen = feature.status.is_frozen
                command = Command.PIN if feature.pinned else Command.FREEZE
                data = {**(strategy if frozen else {}), "frozen": frozen}
                yield ControlMessage(feature.version, command, name, data, "written again")

    def _trigger(self, name: str, verdict: Judgement, now_ms: int) -> Trigger:
        feature = self.state.features[name]
        aged = self._is_aged(feature, now_ms)
        if not verdict.judged and aged:
            return Trigger.AGED
        if not verdict.judged:
            return Trigger.STARVED if verdict.level is Level.INSUFFICIENT else Trigger.UNCLEAR
        self._run_clocks(feature, verdict, now_ms)
        held = feature.status.is_frozen and feature.pinned
        if _reached(feature.calm_ms, self.policy.calmness_ms) and not held:
            return Trigger.CLEARED
        if aged:
            return Trigger.AGED
        lasted = _reached(feature.over_ms, self.policy.persistence_ms)
        if (lasted or verdict.level is Level.UNUSABLE) and not feature.pinned:
            return Trigger.BROKEN
        return Trigger.CALM if verdict.level is Level.OK else Trigger.ALARMED

    def _run_clocks(self, feature: FeatureState, verdict: Judgement, now_ms: int) -> None:
        # windows without enough rows don't count: a gap is worth one slide at most
        passed = 0 if feature.judged_ms is None else now_ms - feature.judged_ms
        passed = min(passed, self.policy.slide_ms)
        over = verdict.level in (Level.CANDIDATE, Level.UNUSABLE)
        feature.over_ms = _run(feature.over_ms, passed, over)
        feature.calm_ms = _run(feature.calm_ms, passed, self._is_calm(feature.status, verdict))
        feature.judged_ms = now_ms

    def _is_calm(self, status: Status, verdict: Judgement) -> bool:
        if verdict.level is not Level.OK:
            return False
        value = verdict.psi - verdict.psi_lift
        if status.is_frozen:
            return value < self.policy.freeze_clear_psi
        distance = verdict.ks - verdict.ks_lift
        return value < self.policy.alert_clear_psi and distance < self.policy.ks_clear

    def _is_aged(self, feature: FeatureState, now_ms: int) -> bool:
        since = feature.frozen_since_ms
        return (
            feature.status is Status.FROZEN
            and since is not None
            and now_ms - since >= self.policy.max_frozen_ms
        )

    def _wants_freeze(self, name: str, trigger: Trigger) -> bool:
        return trigger is Trigger.BROKEN and not self.state.features[name].status.is_frozen

    def _watch_cap(self, over: bool, wanted: Sequence[str], now_ms: int) -> list[Event]:
        state, was = self.state, self.state.stream_broken
        state.broken_calm_ms = _run(state.broken_calm_ms, self.policy.slide_ms, not over)
        if over:
            state.stream_broken = True
        elif was and _reached(state.broken_calm_ms, self.policy.calmness_ms):
            state.stream_broken = False
        if state.stream_broken == was:
            return []
        if was:
            why = "no feature has wanted a freeze beyond the cap for the calm time"
            return [Event(now_ms, GLOBAL, Status.ESCALATED, Status.OK, Trigger.CLEARED, why)]
        why = (
            f"{len(self.frozen)} features are frozen and {len(wanted)} more should be"
            f" ({', '.join(wanted[:5])}), {self.policy.frozen_limit(len(self.names))} may: the"
            " stream is broken, none of them is frozen"
        )
        return [Event(now_ms, GLOBAL, Status.OK, Status.ESCALATED, Trigger.BROKEN, why)]

    def _automatic(
        self, name: str, trigger: Trigger, verdict: Judgement, now_ms: int
    ) -> list[Event]:
        feature = self.state.features[name]
        old = feature.status
        self._enter(feature, TRANSITIONS[old, trigger], now_ms)
        if feature.status is old:
            return []
        why = "; ".join(verdict.reasons) or f"{trigger}: PSI {verdict.psi:.3f}"
        event = Event(
            now_ms, name, old, feature.status, trigger, why, psi=verdict.psi, ks=verdict.ks
        )
        return [event if event.command is None else self._versioned(event)]

    def _commanded(self, name: str, request: Request, now_ms: int) -> Event:
        feature, trigger = self.state.features[name], Trigger(request.command.value)
        old = feature.status
        self._enter(feature, TRANSITIONS[old, trigger], now_ms, restart=trigger is not Trigger.PIN)
        # what a person froze stays so until a person releases it
        feature.pinned = trigger in (Trigger.PIN, Trigger.FREEZE)
        if trigger is Trigger.REBASE:
            feature.reference = request.reference
        event = Event(now_ms, name, old, feature.status, trigger, request.why, request.who)
        return self._versioned(replace(event, reference=request.reference))

    def _versioned(self, event: Event) -> Event:
        self.state.version += 1
        self.state.features[event.feature].version = self.state.version
        return replace(event, version=self.state.version)

    def _enter(
        self, feature: FeatureState, new: Status, now_ms: int, restart: bool = False
    ) -> None:
        """Change the status; a new one, and each command but pin, starts the clocks again."""
        if new is feature.status and not restart:
            return
        if not new.is_frozen:
            feature.frozen_since_ms = None
        elif restart or feature.frozen_since_ms is None:
            feature.frozen_since_ms = now_ms
        if restart or new.is_frozen != feature.status.is_frozen:
            feature.over_ms = None
        feature.calm_ms = None
        feature.status = new


def _reached(clock_ms: int | None, limit_ms: int) -> bool:
    return clock_ms is not None and clock_ms >= limit_ms


def _run(clock_ms: int | None, passed_ms: int, runs: bool) -> int | None:
    """A clock that starts at 0 with the first window of a kind and ends with the last."""
    if not runs:
        return None
    return 0 if clock_ms is None else clock_ms + passed_ms
