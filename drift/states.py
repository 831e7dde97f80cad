"""States of a feature in the drift loop, and every transition between them in one table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

import orjson

from tidemill.errors import ContractError

SCHEMA_VERSION: Final = 1
MAX_REQUESTS: Final = 512  # ids of commands that are remembered, so that one sent twice acts once


class Status(StrEnum):
    """Where a feature stands."""

    OK = "ok"
    ALERT = "alert"  # a person should look; it is served as it is
    FROZEN = "frozen"  # served by its degraded strategy, watched by its raw value
    INSUFFICIENT = "insufficient_data"  # too few rows to call it ok
    ESCALATED = "escalated"  # frozen for longer than a person may overlook

    @property
    def is_frozen(self) -> bool:
        """Whether the degraded strategy serves it."""
        return self in (Status.FROZEN, Status.ESCALATED)


class Trigger(StrEnum):
    """What happened to a feature; the last four are commands of a person."""

    STARVED = "starved"  # a window with too few rows
    UNCLEAR = "unclear"  # a window whose high PSI may be noise: nothing changes
    CALM = "calm"  # a window that shows nothing, or no longer enough
    CLEARED = "cleared"  # calm has lasted
    ALARMED = "alarmed"  # a window over the alert's threshold
    BROKEN = "broken"  # a freeze's reason has lasted, or most values are unusable
    AGED = "aged"  # frozen for too long
    FREEZE = "freeze"
    RELEASE = "release"
    PIN = "pin"
    REBASE = "rebase"


def _row(status: Status, **to: Status) -> dict[tuple[Status, Trigger], Status]:
    """A full row of the table: a trigger that isn't named changes nothing."""
    return {(status, trigger): to.get(trigger.value, status) for trigger in Trigger}


TRANSITIONS: Final[dict[tuple[Status, Trigger], Status]] = {
    **_row(
        Status.OK,
        starved=Status.INSUFFICIENT,
        alarmed=Status.ALERT,
        broken=Status.FROZEN,
        freeze=Status.FROZEN,
        rebase=Status.INSUFFICIENT,
    ),
    **_row(  # an alert outlives a night with few rows: it would only be raised again
        Status.ALERT,
        cleared=Status.OK,
        broken=Status.FROZEN,
        freeze=Status.FROZEN,
        release=Status.OK,
        rebase=Status.INSUFFICIENT,
    ),
    **_row(  # without rows nothing says that the fault is over
        Status.FROZEN,
        cleared=Status.OK,
        aged=Status.ESCALATED,
        release=Status.OK,
        rebase=Status.INSUFFICIENT,
    ),
    **_row(
        Status.INSUFFICIENT,
        calm=Status.OK,
        cleared=Status.OK,
        alarmed=Status.ALERT,
        broken=Status.FROZEN,
        freeze=Status.FROZEN,
    ),
    **_row(  # a person who freezes it knows of it: its age starts again
        Status.ESCALATED,
        cleared=Status.OK,
        freeze=Status.FROZEN,
        release=Status.OK,
        rebase=Status.INSUFFICIENT,
    ),
}


@dataclass(slots=True)
class FeatureState:
    """What is remembered of a feature.  Times are event time, epoch ms."""

    status: Status = Status.INSUFFICIENT
    pinned: bool = False
    """A person decided how it is served, and only a person changes that."""
    judged_ms: int | None = None
    """End of the last window with enough rows."""
    over_ms: int | None = None
    """How long the freeze's reason has lasted; None without one."""
    calm_ms: int | None = None
    """How long calm has lasted; None while it isn't calm."""
    frozen_since_ms: int | None = None
    version: int = 0
    """Version of the last control message about it."""
    reference: str = ""
    """Hash of the reference it was rebased to; empty for the model's own."""


@dataclass(slots=True)
class StreamState:
    """What a checkpoint keeps of the whole stream."""

    features: dict[str, FeatureState] = field(default_factory=dict)
    version: int = 0
    """Highest version of a control message written or seen."""
    stream_broken: bool = False
    """More features want freezing than may be frozen: the fault is the stream's."""
    broken_calm_ms: int | None = None
    evaluated_ms: int | None = None
    requests: list[str] = field(default_factory=list)

    def encode(self) -> bytes:
        """The state as JSON with its schema version."""
        return orjson.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)})

    @classmethod
    def decode(cls, data: bytes) -> StreamState:
        """Read a state back; raises ContractError for another schema version."""
        content = orjson.loads(data)
        version = content.pop("schema_version", None)
        if version != SCHEMA_VERSION:
            raise ContractError(
                f"drift state has version {version!r}, this program reads {SCHEMA_VERSION}: restore"
                " with the release that wrote the savepoint"
            )
        features = {
            name: FeatureState(**{**known, "status": Status(known["status"])})
            for name, known in content.pop("features").items()
        }
        return cls(features=features, **content)
