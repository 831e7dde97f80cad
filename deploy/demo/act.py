"""An act of the demo: a plan that is sent while its answers are heard and shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from redis import Redis

from deploy.demo.checker import read_answers
from deploy.demo.ledger import Ledger
from deploy.demo.listener import Listener
from deploy.demo.live import Live
from deploy.demo.orders import Orders
from deploy.demo.plan import Mix, Schedule, Sending, plan_orders
from deploy.demo.sender import Sender
from deploy.demo.topic_reader import TopicReader
from deploy.demo.view import View
from tidemill.answer import Answer
from tidemill.errors import TidemillError
from tidemill.settings import Settings

_REFRESH_S: Final = 0.25
_COUNT_EVERY_S: Final = 1.0
_QUIET_S: Final = 10.0  # without a new answer for so long, nothing more is expected


@dataclass(frozen=True, slots=True)
class Script:
    """What an act is planned from."""

    orders: Orders
    schedule: Schedule
    late_before_ms: int
    mix: Mix


@dataclass(frozen=True, slots=True)
class Act:
    """A part of the demo; the acts are played one after the other."""

    title: str
    plan: Callable[[Script], list[Sending]]


def _orders(script: Script) -> list[Sending]:
    orders = script.orders
    return plan_orders(
        orders.counted, orders.held_back, script.schedule, script.mix, script.late_before_ms
    )


ACTS: Final = (Act("orders", _orders),)


def _never(_live: Live, _elapsed_s: float) -> bool:
    return False


class Stage:
    """Sends plans on a running stack and watches what comes back; for one thread."""

    def __init__(self, settings: Settings, redis: Redis, ledger: Ledger, view: View) -> None:
        self._settings = settings
        self._redis = redis
        self._ledger = ledger
        self._view = view
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._listener = Listener(redis, settings.prefix)
        self._topics = TopicReader(settings)
        self._sender = Sender(settings, ledger)
        self._next_count_s = 0.0

    def perform(
        self, title: str, plan: Sequence[Sending], enough: Callable[[Live, float], bool] = _never
    ) -> Live:
        """Send ``plan``, wait for its answers; raises what the sender raises.

        ``enough``, asked with the seconds so far, ends it early. Also returns when answers stay
        out: what is missing then is found by the check.
        """
        live, tasks = Live(), {sending.task for sending in plan if sending.task is not None}
        start_s = heard_s = time.monotonic()
        before = len(self._ledger.entries)
        self._sender.start(plan)
        with self._view.open():
            while True:
                now_s = time.monotonic()
                if self._take(live, tasks) or self._sender.busy:
                    heard_s = now_s
                live.sent = len(self._ledger.entries) - before
                self._count_letters(live, now_s)
                self._view.show(title, live, now_s - start_s, now_s)
                if enough(live, now_s - start_s):
                    self._sender.stop()
                if not self._sender.busy and (
                    live.answered == self._ledger.tasks_since(before) or now_s - heard_s > _QUIET_S
                ):
                    break
                time.sleep(_REFRESH_S)
        self._sender.finish()
        return live

    def interrupt(self) -> None:
        """Send nothing more, and wait until Kafka has what was sent."""
        self._sender.stop()
        with suppress(TidemillError):  # the check finds what did not get there
            self._sender.finish()

    def heard_ms(self) -> dict[str, float]:
        """From producing to the callback of each task that was heard."""
        sent_ns = self._ledger.sent_ns
        heard_ns = self._listener.heard_ns.copy()  # the listener adds to it meanwhile
        return {t: (at_ns - sent_ns[t]) / 1e6 for t, at_ns in heard_ns.items() if t in sent_ns}

    def close(self) -> None:
        """Stop sending and listening."""
        self._sender.stop()
        self._listener.close()
        self._topics.close()

    def _take(self, live: Live, tasks: set[str]) -> bool:
        """Read the answers heard since the last time; whether there were any."""
        new = [task for task in self._listener.take_new() if task in tasks]
        heard_ns, sent_ns = self._listener.heard_ns, self._ledger.sent_ns
        for task, value in read_answers(self._redis, self._settings.prefix, new).items():
            if value is not None:
                live.add(
                    Answer.from_json(value),
                    self._wall_ms(sent_ns[task]),
                    self._wall_ms(heard_ns[task]),
                    self._ledger.labels[task],
                )
        return bool(new)

    def _count_letters(self, live: Live, now_s: float) -> None:
        if now_s >= self._next_count_s:
            self._next_count_s = now_s + _COUNT_EVERY_S
            live.dead_letters = self._topics.count(self._settings.dlq_topic)

    def _wall_ms(self, monotonic_ns: int) -> float:
        return (monotonic_ns + self._offset_ns) / 1e6
