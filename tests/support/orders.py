"""Sends orders to a job under test, as a producer of another system would."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.support.models import NO_TRAP
from tidemill.settings import Settings

Headers = Sequence[tuple[str, bytes | None]]


def event(task: str, a: float = 1.0, b: float = 2.0, trap: int = NO_TRAP) -> bytes:
    """The value of an order."""
    return json.dumps(
        {"order_id": task, "event_id": task, "features": {"a": a, "b": b, "trap": trap}}
    ).encode()


class Orders:
    """A producer, and a clock of event time that a test may set ahead.

    ``ahead_ms`` only grows: later orders must not be late because of a test that moved the
    watermark on purpose.
    """

    def __init__(self, settings: Settings) -> None:
        config = settings.kafka.producer_config()
        self._producer = Producer(config | {"linger.ms": "0", "log_level": "0"})
        self._topic = settings.topics.orders
        self._partitions = itertools.cycle(range(settings.topics.partitions))
        self.ahead_ms = 0
        self.failed: list[str] = []

    def now_ms(self) -> int:
        """The event time of an order that happens now."""
        return int(time.time() * 1000) + self.ahead_ms

    def send(
        self,
        task: str | None,
        value: bytes | None = None,
        *,
        key: bytes | None = b"key",
        headers: Headers = (),
        ts_ms: int | None = None,
        partition: int | None = None,
        **features: Any,
    ) -> None:
        """Queue one order; without ``task`` it has no task-id header."""
        named = [] if task is None else [("task-id", task.encode())]
        self._producer.produce(
            self._topic,
            value=event(task or "nameless", **features) if value is None else value,
            key=key,
            headers=[*named, *headers],
            timestamp=self.now_ms() if ts_ms is None else ts_ms,
            partition=next(self._partitions) if partition is None else partition,
            on_delivery=self._delivered,
        )
        self._producer.poll(0)

    def send_raw(
        self, value: bytes | None, *, headers: Headers = (), partition: int | None = None
    ) -> None:
        """Queue a record with any value, null included."""
        self._producer.produce(
            self._topic,
            value=value,
            key=b"raw",
            headers=list(headers),
            timestamp=self.now_ms(),
            partition=next(self._partitions) if partition is None else partition,
            on_delivery=self._delivered,
        )

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until the broker has all."""
        left = self._producer.flush(timeout_s)
        assert left == 0, f"{left} orders were not taken by the broker within {timeout_s} s"
        assert not self.failed, f"the broker refused orders: {self.failed[:3]}"

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(error.str())
