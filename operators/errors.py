"""Errors of the scoring path; the class tells what to do next.

TidemillError
├── RecordError    dead-letter this record and go on: it will never become valid by itself
├── MappingError   stop: the event mapping in the settings is wrong, the message has the remedy
├── RuleError      stop: the rule file is wrong, the message has the remedy
└── StopJob        stop the job: going on would do harm, an operator has to look
"""

from __future__ import annotations

from tidemill.contracts import DeadLetterReason
from tidemill.errors import SettingsError, TidemillError

SHOWN_CHARS = 80  # of a value in a message: a dead letter's header stays small


def shown(value: object) -> str:
    """``value`` as it may stand in a message: its repr, cut to SHOWN_CHARS."""
    if isinstance(value, (str, bytes)) and len(value) > SHOWN_CHARS:
        return f"{value[:SHOWN_CHARS]!r}... ({len(value)} long)"
    if isinstance(value, int) and abs(value) >= 10**SHOWN_CHARS:  # repr of huge ints may raise
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if not isinstance(value, (dict, list)) else _kind_and_size(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _kind_and_size(value: dict[str, object] | list[object]) -> str:
    kind = "an object" if isinstance(value, dict) else "an array"
    return f"{kind} of {len(value)}"


class RecordError(TidemillError):
    """A record that can't be scored; ``reason`` is its place in the closed list."""

    def __init__(self, reason: DeadLetterReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class MappingError(SettingsError):
    """A JSON pointer, scale or default of the event mapping can't be used."""


class RuleError(TidemillError, ValueError):
    """A rule file can't be used; the message names the rule and the remedy."""


class StopJob(TidemillError):  # noqa: N818 - an order, as its name says
    """The job must stop: the message says what was seen, the limit and the remedy."""
