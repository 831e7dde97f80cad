"""A dead letter on its way back to its source topic; pure.

Key, value and the producer's own headers stay as they were.  What the dead letter added goes, the
attempt goes up so that the new answer wins over the old one, and a deadline that has passed goes
too: with it the only possible answer would be `expired`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from operators.dead_letter import TRUNCATED_HEADER
from tidemill.contracts import DLQ_PREFIX, HEADER_ATTEMPT, HEADER_DEADLINE_MS
from tidemill.errors import InvalidEvent

Headers = Sequence[tuple[str, bytes | None]]
_NEEDED: Final = (f"{DLQ_PREFIX}topic", f"{DLQ_PREFIX}timestamp")


@dataclass(frozen=True, slots=True)
class Replay:
    """Where and how to send a dead letter again; key and value are the letter's own."""

    topic: str
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]
    attempt: int


def replay_of(headers: Headers, now_ms: int) -> Replay:
    """How to replay the dead letter with these headers.

    Raises InvalidEvent if it is no dead letter of ours, or was cut to fit.
    """
    named = dict(headers)
    missing = [name for name in _NEEDED if not named.get(name)]
    if missing:
        raise InvalidEvent(f"no dead letter: header {missing[0]} is missing")
    if TRUNCATED_HEADER in named:
        raise InvalidEvent(
            f"its value was cut ({TRUNCATED_HEADER}): send the event again from its source"
        )
    attempt = _number(named, HEADER_ATTEMPT, 1) + 1
    kept = [(n, v) for n, v in headers if not _dropped(n, v, now_ms)]
    return Replay(
        topic=(named[f"{DLQ_PREFIX}topic"] or b"").decode(),
        timestamp_ms=_number(named, f"{DLQ_PREFIX}timestamp", 0),
        headers=[*kept, (HEADER_ATTEMPT, b"%d" % attempt)],
        attempt=attempt,
    )


def _dropped(name: str, value: bytes | None, now_ms: int) -> bool:
    if name == HEADER_DEADLINE_MS:
        return value is None or not value.isdigit() or int(value) <= now_ms
    return name == HEADER_ATTEMPT or name.startswith(DLQ_PREFIX)


def _number(named: dict[str, bytes | None], name: str, default: int) -> int:
    text = named.get(name) or b""
    return int(text) if text.isdigit() and len(text) <= 18 else default
