"""Where unanswered orders are: on the result topic, marked for the relay, or nowhere."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, TopicPartition

from bench.kit.load import Run
from tidemill.contracts import CALLBACK_PENDING, HEADER_CALLBACK, HEADER_TASK_ID
from tidemill.settings import Settings

_SILENCE_S = 3.0  # the topic is read when nothing came for so long


def tell(settings: Settings, run: Run, numbers: range) -> str:
    """A line on the orders of ``numbers`` without a wake-up; empty if there are none."""
    wanted = {run.orders.task(number) for number in numbers if not run.got_s[number]}
    if not wanted:
        return ""
    owed = found = 0
    for headers in _headers_since(settings, run.start_s):
        if headers.get(HEADER_TASK_ID) in wanted:
            found += 1
            owed += headers.get(HEADER_CALLBACK) == CALLBACK_PENDING
    return (
        f"{len(wanted)} orders had no wake-up: {found} are on the result topic, {owed} of them"
        " marked for the relay, because Redis did not reply within redis.timeout_ms"
    )


def _headers_since(settings: Settings, start_s: float) -> Iterator[dict[str, str | bytes | None]]:
    topic, start_ms = settings.topics.results, int(start_s * 1000)
    consumer = Consumer(settings.kafka.consumer_config("bench-missing") | {"log_level": "0"})
    try:
        parts = range(settings.topics.partitions)
        asked = [TopicPartition(topic, p, start_ms) for p in parts]
        consumer.assign(consumer.offsets_for_times(asked, timeout=10))
        moved_s = time.monotonic()
        while time.monotonic() - moved_s < _SILENCE_S:
            for message in _good(consumer.consume(10_000, 0.2)):
                moved_s = time.monotonic()
                yield dict(message.headers() or [])
    finally:
        consumer.close()


def _good(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.error() is None]
