"""What the freeze policy says: changes of state as events, and the control messages they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from drift.control import Command, ControlMessage
from drift.states import Status, Trigger

AUTOMATIC: Final = "drift"  # who, if nobody asked


@dataclass(frozen=True, slots=True)
class Request:
    """A person's command; ``id`` makes a second delivery of it harmless.

    ``feature`` may be GLOBAL.  ``reference`` is the hash that a rebase goes to.
    """

    id: str
    command: Command
    feature: str
    who: str
    why: str
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of state, or a command that was obeyed.  ``feature`` may be GLOBAL.

    ``version`` is that of its control message, 0 if the scoring job needs none.
    """

    at_ms: int
    feature: str
    old: Status
    new: Status
    trigger: Trigger
    why: str
    who: str = AUTOMATIC
    version: int = 0
    psi: float = 0.0
    ks: float = 0.0
    reference: str = ""

    @property
    def command(self) -> Command | None:
        """What the scoring job has to do about it."""
        if self.trigger in (Trigger.PIN, Trigger.REBASE, Trigger.FREEZE, Trigger.RELEASE):
            return Command(self.trigger.value)
        if self.new.is_frozen == self.old.is_frozen:
            return None
        return Command.FREEZE if self.new.is_frozen else Command.RELEASE

    def control(self, strategy: Mapping[str, Any]) -> ControlMessage | None:
        """The control message, if one is due; ``strategy`` is how a frozen feature is served."""
        command = self.command
        if command is None or not self.version:
            return None
        data: dict[str, Any] = dict(strategy) if self.new.is_frozen else {}
        if command is Command.PIN:
            data["frozen"] = self.new.is_frozen
        if self.reference:
            data["reference"] = self.reference
        return ControlMessage(self.version, command, self.feature, data, self.why, self.who)
