"""Writes answers to Redis: one script call a frame, with back-off while Redis is away.

Decides nothing about answers: the script in `redis_script.py` does.  After RedisAway the caller
keeps its rows (in Kafka as pending, or in hand) and asks `ready` before it tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, time
from typing import Any, TypeVar

from operators.redis_link import RedisLink, SecondsLeft
from operators.redis_script import DeliveryRow, chunks, pack_call, unpack_reply
from tidemill.backoff import BackOff
from tidemill.errors import RedisAway
from tidemill.resp import refusal
from tidemill.settings import RedisSettings

_T = TypeVar("_T")


class RedisWriter:
    """Delivers rows; made anywhere, connected in `connect` or by the first write.

    Not for two threads at once; handing it from thread to thread is fine.
    """

    def __init__(
        self, settings: RedisSettings, prefix: str, backoff: BackOff | None = None
    ) -> None:
        self._settings = settings
        self._prefix = prefix
        self._link = RedisLink(settings)
        self._backoff = backoff or BackOff()
        self.written_rows = 0
        self.kept_rows = 0  # an answer of the same or a newer attempt was there
        self.refused_callbacks = 0  # entries that a caller's stream did not take

    def connect(self) -> None:
        """Reach Redis or raise RedisAway; blocks for redis.timeout_ms at most."""
        self._guarded(self._ping)

    def ready(self, now_ms: int) -> bool:
        """Whether a write may be tried: not in the pause after a failure.  Wall clock, ms."""
        return self._backoff.ready(now_ms)

    def write(self, rows: Sequence[DeliveryRow]) -> list[bytes | None]:
        """Write ``rows``; per row None if it was written, else the value that stays.

        Blocks for redis.timeout_ms at most.  Raises RedisAway, after which some rows may have
        been written: write all again, the script tells what is there already.
        """
        if not rows:
            return []
        return self._guarded(lambda left: self._write(rows, left))

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def _guarded(self, action: Callable[[SecondsLeft], _T]) -> _T:
        try:
            result = action(_seconds_left(self._settings.timeout_ms))
        except RedisAway as error:
            error.retry_ms = self._backoff.failed(int(time() * 1000))
            raise
        self._backoff.succeeded()
        return result

    def _ping(self, left: SecondsLeft) -> None:
        # an empty script call needs no more rights than writing does, PING may not be allowed
        self._calls([()], left)

    def _write(self, rows: Sequence[DeliveryRow], left: SecondsLeft) -> list[bytes | None]:
        parts = list(chunks(rows))
        stays: list[bytes | None] = []
        for part, reply in zip(parts, self._calls(parts, left), strict=True):
            values, refused = unpack_reply(reply, len(part))
            stays += values
            self.refused_callbacks += refused
        kept = len(stays) - stays.count(None)
        self.kept_rows += kept
        self.written_rows += len(stays) - kept
        return stays

    def _calls(self, parts: list[Sequence[DeliveryRow]], left: SecondsLeft) -> list[Any]:
        replies = self._send(parts, left, by_text=False)
        missing = [i for i, reply in enumerate(replies) if _code(reply) == "NOSCRIPT"]
        if missing:  # a new server, or SCRIPT FLUSH: the text loads it
            again = self._send([parts[i] for i in missing], left, by_text=True)
            for i, reply in zip(missing, again, strict=True):
                replies[i] = reply
        for reply in replies:
            if isinstance(reply, Exception):
                # READONLY, LOADING and their kin: the next connection may reach another server
                self._link.close()
                raise RedisAway(refusal(self._link.address, reply))
        return replies

    def _send(
        self, parts: list[Sequence[DeliveryRow]], left: SecondsLeft, *, by_text: bool
    ) -> list[Any]:
        ttl_s, length = self._settings.ttl_s, self._settings.stream_max_len
        request = b"".join(
            pack_call(part, self._prefix, ttl_s, length, by_text=by_text) for part in parts
        )
        return self._link.call(request, len(parts), left)


def _code(reply: Any) -> str:
    return str(reply).partition(" ")[0] if isinstance(reply, Exception) else ""


def _seconds_left(timeout_ms: int) -> SecondsLeft:
    """One deadline for all steps of a call, however many packets and connections they take."""
    end_s = monotonic() + timeout_ms / 1000

    def left() -> float:
        left_s = end_s - monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    return left
