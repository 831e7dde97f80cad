"""What the relay decides: which results it owes to Redis, what it may commit, when it is stuck.

In realtime mode the job writes Redis itself and the relay delivers what was marked pending; in
strict mode the relay alone writes Redis, and delivers everything.  Pure: no clients, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from operators.redis_script import DeliveryRow
from tidemill.contracts import (
    CALLBACK_PENDING,
    HEADER_CALLBACK,
    HEADER_REPLY_TO,
    RESULT_VERSION,
    valid_id,
)

Headers = Sequence[tuple[str, bytes | None]]


class Verdict(StrEnum):
    """What to do with a result record; also the label of the counter."""

    DELIVER = "deliver"
    NOT_OWED = "not_owed"  # realtime: Redis has it already
    STALE = "stale"  # its key would have expired by now, and no stream waits for it
    INVALID = "invalid"  # not a result that this program knows


@dataclass(frozen=True, slots=True)
class RelayPolicy:
    """``ttl_ms`` is how long an answer would have stayed in Redis."""

    strict: bool
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, and the row to write if it is DELIVER; ``done_ms`` is when the job was done."""

    verdict: Verdict
    row: DeliveryRow | None = None
    done_ms: int = 0


def decide(policy: RelayPolicy, value: bytes | None, headers: Headers, now_ms: int) -> Decision:
    """The verdict on one record of the result topic."""
    named = dict(headers)
    pending = named.get(HEADER_CALLBACK) == CALLBACK_PENDING
    if not (policy.strict or pending):
        return Decision(Verdict.NOT_OWED)
    result = _read(value)
    if result is None or value is None:
        return Decision(Verdict.INVALID)
    task, attempt, status, done_ms = result
    reply_to = _reply_to(named)
    stale = now_ms - done_ms > policy.ttl_ms
    if stale and not pending and reply_to is None:
        return Decision(Verdict.STALE)
    return Decision(Verdict.DELIVER, (task, attempt, status, reply_to, value), done_ms)


def _read(value: bytes | None) -> tuple[str, int, str, int] | None:
    """Task, attempt, status and time of a result, or None if it is none."""
    try:
        result = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(result, dict) or result.get("v") != RESULT_VERSION:
        return None
    match [result.get(name) for name in ("task", "attempt", "status", "done_ms")]:
        case [str(task), int(attempt), str(status), int(done_ms)] if valid_id(task):
            return task, attempt, status, done_ms
    return None


def _reply_to(headers: Mapping[str, bytes | None]) -> str | None:
    name = (headers.get(HEADER_REPLY_TO) or b"").decode("utf-8", "replace")
    return name if valid_id(name) else None


@dataclass(slots=True)
class Held:
    """Records that were read and not yet settled, and the offsets that may be committed.

    An offset may be committed only when all before it are settled, so the relay settles what it
    holds as a whole.  Partitions that were taken away are forgotten: their new owner reads the
    same records again, and delivering twice changes nothing.
    """

    rows: list[tuple[int, Decision]] = field(default_factory=list)
    _next: dict[int, int] = field(default_factory=dict)
    _settled: dict[int, int] = field(default_factory=dict)

    def add(self, partition: int, offset: int, decision: Decision) -> None:
        """A record was read."""
        self._next[partition] = offset + 1
        if decision.verdict is Verdict.DELIVER:
            self.rows.append((partition, decision))

    def reached_end(self, partition: int, offset: int) -> None:
        """Nothing is left before ``offset``; control records of transactions have no message."""
        self._next[partition] = max(offset, self._next.get(partition, 0))

    def settle(self) -> None:
        """All that was read is delivered or owed to nobody."""
        self._settled |= self._next
        self._next.clear()
        self.rows.clear()

    def take_commits(self) -> dict[int, int]:
        """Next offsets by partition, to be committed now."""
        commits, self._settled = self._settled, {}
        return commits

    def revoke(self, partitions: Iterable[int]) -> None:
        """Forget partitions that belong to another member now."""
        gone = set(partitions)
        self.rows = [row for row in self.rows if row[0] not in gone]
        for partition in gone:
            self._next.pop(partition, None)
            self._settled.pop(partition, None)


@dataclass(slots=True)
class Watchdog:
    """Stuck = there is work and nothing has moved for ``limit_ms``.

    Unknown lag is not zero and not work either: the clock starts when it is known.  Waiting for
    Redis is not being stuck: a restart would not bring it back.
    """

    limit_ms: int
    _marker: object = None
    _since_ms: int | None = None

    def stuck(self, marker: object, lag: int | None, *, excused: bool, now_ms: int) -> bool:
        """Whether to give up; ``marker`` is anything that changes with progress."""
        moved = marker != self._marker
        self._marker = marker
        if moved or excused or not lag:
            self._since_ms = None
            return False
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms >= self.limit_ms
