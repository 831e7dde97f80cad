"""Control messages of the drift loop, and the state they lead to.

The state depends only on the set of messages applied, not on their order or how often each came:
of each feature the highest version counts, and a global release undoes lower freezes.  Unknown
commands and malformed messages are counted and reported, never fatal: the topic is shared by
releases.  Pure; the codec of the message is here so that both ends of the loop use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from tidemill.contracts import CONTROL_VERSION
from tidemill.errors import ContractError

GLOBAL: Final = "global"  # in place of a feature: the command is for all
SNAPSHOT_VERSION: Final = 1
_MAX_VERSION: Final = 2**53  # so that every JSON reader sees the same number


class Command(StrEnum):
    """What the drift loop may ask for."""

    FREEZE = "freeze"
    RELEASE = "release"
    PIN = "pin"
    REBASE = "rebase"


class Outcome(StrEnum):
    """What became of a message; the values are the names of the counters."""

    APPLIED = "control_applied"
    IGNORED = "control_ignored"  # a lower or the same version, or a delete marker
    UNKNOWN = "control_unknown"
    BAD = "control_bad"


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of one message; ``message`` is for the log and empty if there is nothing to say."""

    outcome: Outcome
    message: str = ""

    @property
    def counter(self) -> str:
        """Name of the counter to raise."""
        return self.outcome.value


@dataclass(frozen=True, slots=True)
class ControlMessage:
    """One command; ``feature`` may be GLOBAL, ``strategy`` is the command's own data."""

    version: int
    command: str
    feature: str
    strategy: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    who: str = ""

    @property
    def freezes(self) -> bool:
        """Whether ``feature`` is frozen by it.

        A pin keeps a feature as it is, and the topic's compaction forgets what that was: it says so.
        """
        pinned = self.command == Command.PIN and self.strategy.get("frozen") is True
        return pinned or self.command == Command.FREEZE

    def encode(self) -> bytes:
        """The value of a record of the control topic; its key is ``feature``."""
        return orjson.dumps({"v": CONTROL_VERSION, **asdict(self)})

    @classmethod
    def decode(cls, raw: bytes) -> ControlMessage:
        """Raises ContractError naming the field that can't be used."""
        try:
            data = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise ContractError(f"the control message is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ContractError("the control message is not a JSON object")
        if data.get("v") != CONTROL_VERSION:
            raise ContractError(
                f"the control message has v {data.get('v')!r}, this program reads"
                f" {CONTROL_VERSION}: upgrade the scoring job before the drift job"
            )
        version = data.get("version")
        if type(version) is not int or not 0 < version <= _MAX_VERSION:
            raise ContractError(f"version {version!r} is not a number from 1 to 2**53")
        texts = {name: data.get(name, "") for name in ("command", "feature", "why", "who")}
        for name, value in texts.items():
            if not isinstance(value, str) or (not value and name in ("command", "feature")):
                raise ContractError(f"{name} {value!r} is not text")
        strategy = data.get("strategy") or {}
        if not isinstance(strategy, dict):
            raise ContractError(f"strategy {strategy!r} is not an object")
        return cls(version=version, strategy=strategy, **texts)


class ControlState:
    """The commands in force.  Not applied to scores yet; answers carry its version and names."""

    def __init__(self) -> None:
        self._latest: dict[str, ControlMessage] = {}
        self.version = 0
        """Highest version applied; 0 if none was."""
        self.frozen: tuple[str, ...] = ()
        """Frozen features in order, or GLOBAL."""

    @property
    def commands(self) -> Mapping[str, ControlMessage]:
        """The command with the highest version by feature."""
        return self._latest

    def apply(self, raw: bytes | None) -> Applied:
        """Take one message of the control topic; never raises for its content."""
        if raw is None:
            return Applied(Outcome.IGNORED)
        try:
            message = ControlMessage.decode(raw)
        except ContractError as error:
            return Applied(Outcome.BAD, str(error))
        if message.command not in set(Command):
            return Applied(
                Outcome.UNKNOWN,
                f"command {message.command!r} (version {message.version}) is unknown here: upgrade"
                " the scoring job if it should take effect",
            )
        known = self._latest.get(message.feature)
        if known is not None and known.version >= message.version:
            return Applied(Outcome.IGNORED)
        self._take(message)
        return Applied(Outcome.APPLIED)

    def snapshot(self) -> bytes:
        """The state as bytes, for broadcast state."""
        latest = [asdict(message) for message in self._latest.values()]
        return orjson.dumps({"schema_version": SNAPSHOT_VERSION, "latest": latest})

    @classmethod
    def restore(cls, data: bytes) -> ControlState:
        """Read a snapshot back; raises ContractError for another version."""
        content = orjson.loads(data)
        if content.get("schema_version") != SNAPSHOT_VERSION:
            raise ContractError(
                f"control state has version {content.get('schema_version')!r}, this program reads"
                f" {SNAPSHOT_VERSION}: restore with the release that wrote the savepoint"
            )
        state = cls()
        for message in content["latest"]:
            state._take(ControlMessage(**message))
        return state

    def _take(self, message: ControlMessage) -> None:
        self._latest[message.feature] = message
        self.version = max(self.version, message.version)
        released = 0
        for_all = self._latest.get(GLOBAL)
        if for_all is not None and for_all.command == Command.RELEASE:
            released = for_all.version
        self.frozen = tuple(
            sorted(
                name
                for name, latest in self._latest.items()
                if latest.freezes and latest.version > released
            )
        )
