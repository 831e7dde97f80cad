"""Errors of tidemill; the class tells what to do next.

TidemillError
├── SettingsError       stop: a setting is wrong, the message names it and its remedy
├── InvalidEvent        fix the event: sending it again as it is can't help
├── NotDelivered        send again: Kafka did not confirm the record (the same task id is safe)
├── DeadlineExceeded    wait again or give up: no answer yet, one may still come
├── Unavailable         retry later: Redis or Kafka can't be reached or refuses to serve
│   └── RedisAway       what the writers raise: keep the result, try after a back-off
├── ContractError       stop: a record or value speaks a version that this program doesn't know
└── Stuck               end the process: no progress although there is work; a restart may help

Messages name the value, the limit and the remedy, and never a secret.  Names say what happened, as
TimeoutError's siblings in other clients do, so the suffix rule N818 is off for them.
"""

from __future__ import annotations


class TidemillError(Exception):
    """Base of all errors that tidemill raises on purpose."""


class SettingsError(TidemillError, ValueError):
    """A setting is unknown, of the wrong type or over its limit."""


class InvalidEvent(TidemillError, ValueError):  # noqa: N818
    """The event can't be sent as it is: too large, not JSON, or with a bad id."""


class NotDelivered(TidemillError):  # noqa: N818
    """Kafka did not confirm the record; sending it again under the same task id is safe."""

    def __init__(self, message: str, task_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id


class DeadlineExceeded(TidemillError, TimeoutError):  # noqa: N818
    """No answer came before the caller's deadline; ``task_id`` may be waited for again."""

    def __init__(self, message: str, task_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id


class Unavailable(TidemillError, ConnectionError):  # noqa: N818
    """A service can't be reached or refuses to serve for now."""


class RedisAway(Unavailable):
    """Redis did not take a write in time; ``retry_ms`` is the back-off to keep, if known."""

    def __init__(self, message: str, retry_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_ms = retry_ms


class ContractError(TidemillError, ValueError):
    """A value does not follow the contract of its version."""


class Stuck(TidemillError):  # noqa: N818
    """There is work and no progress for too long; only a restart may help."""
