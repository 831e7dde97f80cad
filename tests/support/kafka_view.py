"""A topic seen from outside: every record of it, read by a consumer of the test's own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

from confluent_kafka import Consumer, Message, TopicPartition

from tidemill.settings import Settings


@dataclass(frozen=True)
class Seen:
    """One record as it lies in Kafka."""

    partition: int
    offset: int
    ts_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def header(self, name: str) -> bytes | None:
        """The last header of that name; None if there is none."""
        return dict(self.headers).get(name)

    @property
    def json(self) -> dict[str, Any]:
        """The value as JSON."""
        assert self.value is not None
        return dict(json.loads(self.value))

    @property
    def task(self) -> str:
        """The task of a result record."""
        return str(self.json["task"])


class TopicView:
    """All records of a topic from its start; only what was committed unless ``dirty``."""

    def __init__(self, settings: Settings, topic: str, *, dirty: bool = False) -> None:
        config = settings.kafka.consumer_config("outside", reset="earliest")
        level = "read_uncommitted" if dirty else "read_committed"
        # a broker that is restarted on purpose is no news
        self._consumer = Consumer(config | {"isolation.level": level, "log_level": "0"})
        found = self._consumer.list_topics(topic, timeout=10).topics[topic]
        self._consumer.assign([TopicPartition(topic, p, 0) for p in found.partitions])
        self.records: list[Seen] = []

    def read(self, wait_s: float = 0.1) -> list[Seen]:
        """What came since the last call."""
        fresh = []
        for message in self._consumer.consume(10_000, wait_s):
            if message.error() is None:
                fresh.append(_seen(message))
        self.records += fresh
        return fresh

    def until(
        self, true: Callable[[list[Seen]], bool], what: str, timeout_s: float = 30.0
    ) -> list[Seen]:
        """Read until ``true`` of all records; returns them."""
        end = time.monotonic() + timeout_s
        while not true(self.records):
            assert time.monotonic() < end, f"{what}: not within {timeout_s} s"
            self.read()
        return self.records

    def of_tasks(self, tasks: set[str], timeout_s: float = 30.0) -> list[Seen]:
        """The result records of ``tasks``, once each has one."""
        self.until(
            lambda records: tasks <= {record.task for record in records},
            f"results of {len(tasks)} tasks",
            timeout_s,
        )
        return [record for record in self.records if record.task in tasks]

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _seen(message: Message) -> Seen:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers = tuple(cast("list[tuple[str, bytes | None]]", message.headers() or []))
    return Seen(partition, offset, message.timestamp()[1], message.key(), message.value(), headers)
