"""A backlog of records, and how fast it is worked off, seen from the ends of the result topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.kit.errors import BenchError
from bench.kit.orders import Orders
from tidemill.contracts import HEADER_TASK_ID
from tidemill.settings import Settings

_FILL_LIMIT_S = 30.0  # of a slow machine it takes what it has by then
_QUEUE = 200_000
_SAMPLE_S = 0.1
_STUCK_S = 60.0
_PATIENCE_S = 10.0


def fill(settings: Settings, topic: str, count: int) -> int:
    """Produce ``count`` orders as fast as this process can; returns how many it managed in 30 s."""
    more = {"linger.ms": "5", "queue.buffering.max.messages": str(_QUEUE)}
    producer = Producer(settings.kafka.producer_config() | more)
    orders = Orders(uuid4().hex[:8])
    end_s = time.monotonic() + _FILL_LIMIT_S
    for number in range(count):
        task = orders.task(number)
        if number % 1000 == 0:
            if time.monotonic() > end_s:
                count = number
                break
            while len(producer) > _QUEUE - 2000:
                producer.poll(0.01)
        producer.produce(
            topic,
            value=orders.value(task, number),
            key=orders.key(number),
            headers=[(HEADER_TASK_ID, task)],
            timestamp=int(time.time() * 1000),
        )
    if left := producer.flush(_PATIENCE_S):
        raise BenchError(f"{left} of {count} records were not taken by the broker")
    return count


def follow(count: Callable[[], int], before: int, total: int) -> list[tuple[float, int]]:
    """(s, records since ``before``) until there are ``total``; raises BenchError if it stops."""
    samples = [(time.monotonic(), 0)]
    moved_s = samples[0][0]
    while samples[-1][1] < total:
        time.sleep(_SAMPLE_S)
        seen, now_s = count() - before, time.monotonic()
        if seen > samples[-1][1]:
            moved_s = now_s
        elif now_s - moved_s > _STUCK_S:
            raise BenchError(f"{seen} of {total} records, and no more for {_STUCK_S:.0f} s")
        samples.append((now_s, seen))
    return samples


class TopicEnds:
    """Counts a topic's records by its partitions' ends; those of open transactions count too.

    A transaction leaves a marker a partition at its commit, a few in a run, which count as well.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        config = settings.kafka.consumer_config("bench-ends")
        self._consumer = Consumer(
            config | {"isolation.level": "read_uncommitted", "log_level": "0"}
        )
        self._parts = [TopicPartition(topic, p) for p in range(settings.topics.partitions)]

    def count(self) -> int:
        """Records so far."""
        ends = (self._consumer.get_watermark_offsets(p, timeout=10) for p in self._parts)
        return sum(end[1] for end in ends if end is not None)

    def skip(self, group: str) -> None:
        """Let ``group`` start at the ends."""
        config = self._settings.kafka.consumer_config(group) | {"log_level": "0"}
        consumer = Consumer(config)
        ends = [
            TopicPartition(part.topic, part.partition, end[1])
            for part in self._parts
            if (end := self._consumer.get_watermark_offsets(part, timeout=10)) is not None
        ]
        consumer.commit(offsets=ends, asynchronous=False)
        consumer.close()

    def newest(self, count: int) -> list[bytes]:
        """The values of about ``count`` of the newest records."""
        each = count // len(self._parts)
        starts = []
        for part in self._parts:
            ends = self._consumer.get_watermark_offsets(part, timeout=10)
            if ends is not None:
                starts.append(TopicPartition(part.topic, part.partition, max(0, ends[1] - each)))
        self._consumer.assign(starts)
        found = self._consumer.consume(count, _PATIENCE_S / 5)
        self._consumer.unassign()
        return [m.value() or b"" for m in found if m.error() is None]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()
