"""Who waits for which answer, and what to say to Redis for it; no sockets, no clock.

One connection of protocol 3 serves all waiters of a client: messages only say "look now", the
truth is the value of the key.  Redis runs the commands of a connection in order, so `SUBSCRIBE`
followed by `GET` leaves no gap: the answer is there for the GET, or its message comes after it.
After a lost connection everything is subscribed and looked for again.  Replies come in the order
of the requests; an error reply or silence ends the connection, so none is ever matched wrongly.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import hiredis

from tidemill.contracts import result_key
from tidemill.errors import Unavailable
from tidemill.resp import pack

# The value of the key, None after a last look that found nothing, or why it could not look.
Outcome = bytes | None | Unavailable
_ATTEMPT: Final = re.compile(rb'"attempt":(\d+)')


@dataclass(slots=True)
class _Waiter:
    task: str
    attempt: int
    tell: Callable[[Outcome], None]


@dataclass(slots=True)
class _Expected:
    """A reply that is owed by Redis: to a GET of ``task``, or to the login."""

    sent_ms: int
    task: str | None = None
    last_look_of: int | None = None


@dataclass(slots=True)
class Waiting:
    """Waiters by number and by task.  Each waiter is told once, then forgotten.

    ``login`` are the commands that open a connection; a reply later than ``timeout_ms`` means
    that the server hangs; after ``probe_ms`` of silence one waited task is looked for.
    """

    prefix: str
    login: Sequence[tuple[str, ...]]
    timeout_ms: int
    probe_ms: int
    connected: bool = False
    _waiters: dict[int, _Waiter] = field(default_factory=dict)
    _tasks: dict[str, set[int]] = field(default_factory=dict)
    _expected: deque[_Expected] = field(default_factory=deque)
    _out: list[bytes] = field(default_factory=list)
    _heard_ms: int = 0

    @property
    def idle(self) -> bool:
        """Whether nobody waits."""
        return not self._waiters

    def add(
        self, number: int, task: str, attempt: int, tell: Callable[[Outcome], None], now_ms: int
    ) -> None:
        """Wait for an answer of ``task`` of at least this attempt."""
        self._waiters[number] = _Waiter(task, attempt, tell)
        others = self._tasks.setdefault(task, set())
        others.add(number)
        if self.connected:
            if len(others) == 1:
                self._out.append(pack(("SUBSCRIBE", result_key(self.prefix, task))))
            self._get(task, now_ms)

    def remove(self, number: int) -> None:
        """Stop waiting; safe if the waiter was told already."""
        waiter = self._waiters.pop(number, None)
        if waiter is None:
            return
        others = self._tasks[waiter.task]
        others.discard(number)
        if not others:
            del self._tasks[waiter.task]
            if self.connected:
                self._out.append(pack(("UNSUBSCRIBE", result_key(self.prefix, waiter.task))))

    def last_look(self, number: int, now_ms: int, why_not: str) -> None:
        """Look once more for a waiter whose time is over; it is told the value, None or why not."""
        waiter = self._waiters.get(number)
        if waiter is None:
            return
        if self.connected:
            self._get(waiter.task, now_ms, number)
        else:
            self._tell(number, Unavailable(why_not))

    def on_connected(self, now_ms: int) -> None:
        """A new connection is open: log in, subscribe and look for everything."""
        self.connected, self._heard_ms = True, now_ms
        self._out = [pack(command) for command in self.login]
        self._expected = deque(_Expected(now_ms) for _ in self.login)
        if self._tasks:
            keys = [result_key(self.prefix, task) for task in self._tasks]
            self._out.append(pack(("SUBSCRIBE", *keys)))
        for task in self._tasks:
            self._get(task, now_ms)

    def on_lost(self, why: str) -> None:
        """The connection is gone; only last looks can't wait for the next one."""
        self.connected = False
        self._out.clear()
        expected, self._expected = self._expected, deque()
        for reply in expected:
            if reply.last_look_of is not None:
                self._tell(reply.last_look_of, Unavailable(why))

    def on_replies(self, replies: Iterable[Any], now_ms: int) -> None:
        """Take what Redis said.  Raises what ends the connection, an error reply above all."""
        self._heard_ms = now_ms
        for reply in replies:
            if isinstance(reply, hiredis.PushNotification):
                self._on_push(reply, now_ms)
            elif isinstance(reply, Exception):
                raise reply
            else:
                self._on_reply(reply)

    def take_output(self) -> bytes:
        """The bytes to send now."""
        out, self._out = b"".join(self._out), []
        return out

    def on_tick(self, now_ms: int) -> None:
        """Call every now and then while connected; raises TimeoutError if Redis hangs."""
        if self._expected and now_ms - self._expected[0].sent_ms > self.timeout_ms:
            raise TimeoutError
        if self._tasks and not self._expected and now_ms - self._heard_ms >= self.probe_ms:
            self._get(next(iter(self._tasks)), now_ms)

    def _get(self, task: str, now_ms: int, last_look_of: int | None = None) -> None:
        self._out.append(pack(("GET", result_key(self.prefix, task))))
        self._expected.append(_Expected(now_ms, task, last_look_of))

    def _on_push(self, push: Sequence[Any], now_ms: int) -> None:
        if push[0] != b"message":
            return  # confirmations: the GET sent behind each SUBSCRIBE needs none
        task = push[1].decode().rpartition("{")[2].removesuffix("}")
        if task in self._tasks:
            self._get(task, now_ms)

    def _on_reply(self, value: Any) -> None:
        if not self._expected:
            raise ConnectionError("a reply without a request")
        expected = self._expected.popleft()
        if expected.task is None:
            return
        if value is not None:
            self._resolve(expected.task, value)
        if expected.last_look_of is not None:
            self._tell(expected.last_look_of, None)

    def _resolve(self, task: str, value: bytes) -> None:
        found = _ATTEMPT.search(value)
        attempt = int(found[1]) if found else 0
        for number in list(self._tasks.get(task, ())):
            if attempt >= self._waiters[number].attempt:
                self._tell(number, value)

    def _tell(self, number: int, outcome: Outcome) -> None:
        waiter = self._waiters.get(number)
        if waiter is not None:
            self.remove(number)
            waiter.tell(outcome)
