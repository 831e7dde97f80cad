"""Hears the callbacks: a subscriber of the wake-ups that the job publishes with each answer."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError

from tidemill.contracts import result_key

_POLL_S: Final = 0.2


class Listener:
    """Notes when the answer of each task was heard first, on the monotonic clock."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._before, self._after = (part.encode() for part in _around(prefix))
        self._channel = redis.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        self._channel.psubscribe(f"{_escaped(self._before.decode())}*{self._after.decode()}")
        self._closed = threading.Event()
        self._new: deque[str] = deque()
        self.heard_ns: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="demo-listener", daemon=True)
        self._thread.start()

    def take_new(self) -> list[str]:
        """Tasks heard since the last call."""
        return [self._new.popleft() for _ in range(len(self._new))]

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        self._thread.join()
        self._channel.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                message = self._channel.get_message(timeout=_POLL_S)
            except (RedisError, OSError):  # away: redis-py subscribes again when it is back
                self._closed.wait(_POLL_S)
                continue
            if message is not None:
                self._hear(message, time.monotonic_ns())

    def _hear(self, message: dict[str, Any], now_ns: int) -> None:
        name: bytes = message["channel"]
        task = name.removeprefix(self._before).removesuffix(self._after).decode()
        if task not in self.heard_ns:
            self.heard_ns[task] = now_ns
            self._new.append(task)


def _around(prefix: str) -> tuple[str, str]:
    """What stands before and after the task in the name of its channel."""
    before, _, after = result_key(prefix, "\0").partition("\0")
    return before, after


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "*?[]\\" else c for c in text)
