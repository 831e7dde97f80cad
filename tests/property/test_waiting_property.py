"""Contract: whatever the order of waiting, answering, losing the connection and giving up, a waiter
whose answer is in Redis is told it, once, and never another's."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import hiredis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tidemill.contracts import result_key
from tidemill.errors import Unavailable
from tidemill.waiting import Outcome, Waiting

PREFIX = "p"
TASKS = st.sampled_from(["a", "b"])
ATTEMPTS = st.sampled_from([1, 1, 2])


class ModelRedis:
    """Keys, and one connection: commands are run in order, messages are lost without it."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}
        self.requests: deque[list[bytes]] = deque()
        self.channels: set[bytes] = set()
        self.replies: deque[bytes] = deque()

    def disconnect(self) -> None:
        self.requests.clear()
        self.channels.clear()
        self.replies.clear()

    def answer(self, task: str, attempt: int) -> None:
        key = result_key(PREFIX, task)
        old = self.keys.get(key)
        if old is None or attempt_of(old) < attempt:
            self.keys[key] = b'{"v":1,"task":"%b","attempt":%d}' % (task.encode(), attempt)
            if key.encode() in self.channels:
                self._push(b"message", key.encode(), b"ok")

    def run_one(self) -> None:
        name, *arguments = self.requests.popleft()
        if name == b"GET":
            value = self.keys.get(arguments[0].decode())
            self.replies.append(b"_\r\n" if value is None else bulk(value))
        elif name == b"HELLO":
            self.replies.append(b"%1\r\n+proto\r\n:3\r\n")
        else:
            change = self.channels.add if name == b"SUBSCRIBE" else self.channels.discard
            for channel in arguments:
                change(channel)
                self._push(name.lower(), channel, b"1")

    def _push(self, *parts: bytes) -> None:
        self.replies.append(b">%d\r\n" % len(parts) + b"".join(bulk(part) for part in parts))


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def attempt_of(value: bytes) -> int:
    return int(value.rpartition(b":")[2].removesuffix(b"}"))


class Machine(RuleBasedStateMachine):
    """Rules are everything that may happen; `teardown` lets things settle and checks the promise."""

    waiters = Bundle("waiters")

    def __init__(self) -> None:
        super().__init__()
        self.redis = ModelRedis()
        self.waiting = Waiting(PREFIX, [("HELLO", "3")], timeout_ms=500, probe_ms=1000)
        self.sent = hiredis.Reader()
        self.heard = hiredis.Reader()
        self.now_ms = 0
        self.wanted: dict[int, tuple[str, int]] = {}
        self.told: dict[int, Outcome] = {}
        self.gone: set[int] = set()

    @rule(target=waiters, task=TASKS, attempt=ATTEMPTS)
    def wait(self, task: str, attempt: int) -> int:
        number = len(self.wanted)
        self.wanted[number] = (task, attempt)

        def tell(outcome: Outcome) -> None:
            assert number not in self.told
            assert number not in self.gone
            self.told[number] = outcome

        self.waiting.add(number, task, attempt, tell, self.now_ms)
        return number

    @rule(number=consumes(waiters))
    def give_up(self, number: int) -> None:
        self.waiting.remove(number)
        self.gone.add(number)

    @rule(number=waiters)
    def look_a_last_time(self, number: int) -> None:
        if number not in self.gone:
            self.waiting.last_look(number, self.now_ms, "no connection")

    @rule(task=TASKS, attempt=ATTEMPTS)
    def answer(self, task: str, attempt: int) -> None:
        self.redis.answer(task, attempt)

    @rule(steps=st.lists(st.sampled_from(["flush", "run", "hear"]), min_size=1, max_size=8))
    def work(self, steps: list[str]) -> None:
        for step in steps:
            if step == "flush":
                self._flush()
            elif step == "run" and self.redis.requests:
                self.redis.run_one()
            elif step == "hear" and self.redis.replies:
                self._hear()

    @initialize()
    def connect(self) -> None:
        if not self.waiting.connected:
            self.waiting.on_connected(self.now_ms)

    @rule(stay_away=st.booleans())
    def lose(self, stay_away: bool) -> None:
        if self.waiting.connected:
            self.redis.disconnect()
            self.sent, self.heard = hiredis.Reader(), hiredis.Reader()
            self.waiting.on_lost("lost")
        if not stay_away:
            self.connect()

    @rule(passed_ms=st.integers(0, 400))
    def tick(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        if self.waiting.connected:
            try:
                self.waiting.on_tick(self.now_ms)
            except TimeoutError:
                self.lose(stay_away=False)

    @invariant()
    def nobody_is_told_another_ones_answer(self) -> None:
        for number, outcome in self.told.items():
            task, attempt = self.wanted[number]
            if isinstance(outcome, bytes):
                assert f'"task":"{task}"'.encode() in outcome
                assert attempt_of(outcome) >= attempt

    def teardown(self) -> None:
        self.connect()
        self._flush()
        while self.redis.requests or self.redis.replies:
            while self.redis.requests:
                self.redis.run_one()
            while self.redis.replies:
                self._hear()
            self._flush()
        for number, (task, attempt) in self.wanted.items():
            value = self.redis.keys.get(result_key(PREFIX, task))
            if value is not None and attempt_of(value) >= attempt and number not in self.gone:
                assert number in self.told, f"waiter {number} of {task} lost its wake-up"
        left = {t for n, (t, _) in self.wanted.items() if n not in self.gone | self.told.keys()}
        assert self.redis.channels == {result_key(PREFIX, task).encode() for task in left}
        assert self.waiting.idle == (not left)

    def _flush(self) -> None:
        if self.waiting.connected:
            self.sent.feed(self.waiting.take_output())
            while (request := self.sent.gets()) is not False:
                assert isinstance(request, list)
                self.redis.requests.append(request)

    def _hear(self) -> None:
        self.heard.feed(self.redis.replies.popleft())
        replies: list[Any] = []
        while (reply := self.heard.gets()) is not False:
            replies.append(reply)
        self.waiting.on_replies(replies, self.now_ms)


TestWaiting = Machine.TestCase
TestWaiting.settings = settings(max_examples=200, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("connected_first", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_an_answer_at_every_moment_of_a_wait_is_told(connected_first: bool, again: bool) -> None:
    """All cuts: so many requests run and replies heard before the answer comes."""
    for runs, hears in itertools.product(range(5), range(5)):
        machine = Machine()
        if connected_first:
            machine.connect()
        machine.wait("a", 1)
        machine.connect()
        if again:
            machine.give_up(machine.wait("a", 1))
            machine.give_up(0)
            machine.wait("a", 1)
        machine.work(["flush", *["run"] * runs, *["hear"] * hears])
        machine.answer("a", 1)
        machine.teardown()


def test_an_error_reply_ends_the_connection() -> None:
    waiting = Waiting(PREFIX, [("HELLO", "3")], timeout_ms=500, probe_ms=1000)
    outcomes: list[Outcome] = []
    waiting.add(1, "a", 1, outcomes.append, 0)
    waiting.on_connected(0)
    waiting.last_look(1, 0, "")
    try:
        waiting.on_replies([hiredis.ReplyError("NOPERM no")], 0)
    except hiredis.ReplyError as error:
        waiting.on_lost(str(error))
    (outcome,) = outcomes
    assert isinstance(outcome, Unavailable)
    assert "NOPERM" in str(outcome)
