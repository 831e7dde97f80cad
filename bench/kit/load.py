"""An open-loop load generator on one thread: sends on schedule, and takes the wake-ups meanwhile.

One process, one thread, one Redis connection: it shares the cores with all that it measures, so it
does as little as it can. It does not wait for answers, so a stall of the stack delays no order.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import hiredis
from confluent_kafka import Producer

from bench.kit.orders import ID_DIGITS, Orders
from bench.kit.stats import Schedule
from tidemill.contracts import HEADER_DEADLINE_MS, HEADER_TASK_ID, result_key
from tidemill.resp import pack
from tidemill.settings import Settings

_START_S = 0.2  # between the subscription and the first order
_GRACE_S = 15.0  # how long an answer is waited for after the last order
_TICK_S = 0.001  # the generator wakes no more often
_BURST = 64  # most orders sent between two looks at the wake-ups
_READ_BYTES = 1 << 18
_FIRST_LINGER_RATE = 500.0  # from this rate on records wait 1 ms for company


@dataclass(slots=True)
class Run:
    """What happened to each order, by its number; times in s since the epoch, 0 = never."""

    orders: Orders
    schedule: Schedule
    start_s: float
    sent_s: array[float]
    got_s: array[float]
    repeats: int = 0
    payloads: dict[int, bytes] = field(default_factory=dict)

    def numbers_after(self, lead_in_s: float) -> range:
        """The orders that count: those after the lead-in."""
        return range(self.schedule.due(lead_in_s) if lead_in_s else 0, self.schedule.count)

    def latencies_ms(self, numbers: range) -> list[float]:
        """From the call that produced an order to its wake-up, ascending; without the unanswered."""
        sent, got = self.sent_s, self.got_s
        return sorted((got[i] - sent[i]) * 1000 for i in numbers if got[i])

    def behind_ms(self, numbers: range) -> list[float]:
        """How much later than scheduled orders were sent, ascending."""
        due_s, start_s = self.schedule.due_s, self.start_s
        return sorted((self.sent_s[i] - start_s - due_s(i)) * 1000 for i in numbers)

    def answered(self, numbers: range) -> float:
        """Percent of the orders that were answered."""
        return 100 * sum(1 for i in numbers if self.got_s[i]) / len(numbers)


class Load:
    """Sends orders to one deployment and listens for their answers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def run(
        self,
        rate: float,
        seconds: float,
        *,
        topic: str = "",
        deadline_ms: int = 0,
        keep_payloads: bool = False,
    ) -> Run:
        """Send ``rate`` orders a second for ``seconds``, and wait for the last answers.

        ``deadline_ms`` after its production each order must be answered; 0 = the job's default.
        """
        schedule = Schedule.lasting(rate, seconds)
        empty = array("d", bytes(8 * schedule.count))
        run = Run(Orders(uuid4().hex[:8]), schedule, 0.0, empty, array("d", empty))
        producer = self._producer(rate)
        with self._subscribed(run.orders) as sock:
            gc.collect()
            gc.disable()
            try:
                run.start_s = time.time() + _START_S
                topic = topic or self._settings.topics.orders
                _Loop(run, producer, topic, sock, deadline_ms, keep_payloads).run()
            finally:
                gc.enable()
        producer.flush(10)
        return run

    def _producer(self, rate: float) -> Producer:
        linger = "0" if rate < _FIRST_LINGER_RATE else "1"
        more = {"linger.ms": linger, "queue.buffering.max.messages": "1000000"}
        producer = Producer(self._settings.kafka.producer_config() | more)
        producer.list_topics(self._settings.topics.orders, timeout=10)
        return producer

    @contextmanager
    def _subscribed(self, orders: Orders) -> Iterator[socket.socket]:
        redis = self._settings.redis
        with socket.create_connection((redis.host, redis.port), 5) as sock:
            pattern = result_key(self._settings.prefix, f"{orders.run}-*")
            sock.sendall(pack(("PSUBSCRIBE", pattern)))
            sock.recv(1024)
            yield sock


class _Loop:
    """One run's loop; apart from `Load` because all of this changes on every turn."""

    def __init__(
        self,
        run: Run,
        producer: Producer,
        topic: str,
        sock: socket.socket,
        deadline_ms: int,
        keep_payloads: bool,
    ) -> None:
        self._run = run
        self._producer = producer
        self._topic = topic
        self._sock = sock
        self._deadline_ms = deadline_ms
        self._keep = keep_payloads
        self._reader = hiredis.Reader()
        self._sent = 0
        self._answered = 0

    def run(self) -> None:
        schedule, start_s = self._run.schedule, self._run.start_s
        end_s = start_s + schedule.due_s(schedule.count) + _GRACE_S
        poll, count = self._producer.poll, schedule.count
        while self._answered < count:
            now_s = time.time()
            if now_s > end_s:
                return
            due = schedule.due(now_s - start_s)
            self._send(min(due, self._sent + _BURST))
            poll(0)
            if self._sent < due:
                wait_s = 0.0
            elif self._sent < count:
                wait_s = max(_TICK_S, start_s + schedule.due_s(self._sent) - time.time())
            else:
                wait_s = 0.01
            if select.select([self._sock], [], [], wait_s)[0]:
                self._receive()

    def _send(self, until: int) -> None:
        orders, sent_s, produce = self._run.orders, self._run.sent_s, self._producer.produce
        for number in range(self._sent, until):
            task = orders.task(number)
            value, key = orders.value(task, number), orders.key(number)
            headers: list[tuple[str, str | bytes | None]] = [(HEADER_TASK_ID, task)]
            sent_s[number] = now_s = time.time()
            now_ms = int(now_s * 1000)
            if self._deadline_ms:
                headers.append((HEADER_DEADLINE_MS, b"%d" % (now_ms + self._deadline_ms)))
            produce(self._topic, value=value, key=key, headers=headers, timestamp=now_ms)
        self._sent = until

    def _receive(self) -> None:
        data = self._sock.recv(_READ_BYTES)
        now_s = time.time()
        if not data:
            raise ConnectionError("Redis closed the connection of the wake-ups")
        got_s, run, gets = self._run.got_s, self._run, self._reader.gets
        self._reader.feed(data)
        while message := gets():
            number = int(message[2][-ID_DIGITS - 1 : -1])  # the channel is PREFIX:res:{RUN-NUMBER}
            if got_s[number]:
                run.repeats += 1
                continue
            got_s[number] = now_s
            self._answered += 1
            if self._keep:
                run.payloads[number] = message[3]
