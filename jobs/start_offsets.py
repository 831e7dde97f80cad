"""Where a job without a savepoint begins to read each partition: decided once, when it is submitted.

The source then runs with no reset policy: a committed offset that retention has deleted stops the
job with an error instead of a silent jump over the gap.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidemill.errors import SettingsError, Unavailable
from tidemill.settings import KafkaSettings

_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Partition:
    """What the broker says of one partition; ``committed`` is None if the group never was there."""

    number: int
    first: int
    end: int
    committed: int | None


def choose_offset(partition: Partition, start: str) -> int:
    """The offset to begin at; ``start``: committed (else the earliest), earliest or latest.

    Raises SettingsError if the committed offset is not in the log any more: what lies between is
    lost, and somebody has to decide to go on without it.
    """
    if start == "earliest":
        return partition.first
    if start == "latest":
        return partition.end
    committed = partition.committed
    if committed is None:
        return partition.first
    if partition.first <= committed <= partition.end:
        return committed
    where, gap = (
        ("before the first record", partition.first - committed)
        if committed < partition.first
        else ("behind the end", committed - partition.end)
    )
    raise SettingsError(
        f"partition {partition.number}: the group's offset {committed} is {gap} {where} that is "
        f"left ({partition.first}..{partition.end}): records were deleted or the topic was made "
        f'anew; set job.start = "earliest" (or "latest") to go on without them'
    )


def start_offsets(kafka: KafkaSettings, topic: str, group: str, start: str) -> dict[int, int]:
    """The offset of each partition of ``topic``.  Raises Unavailable or SettingsError.

    The consumer never subscribes, so the group gets no member by asking.
    """
    consumer = Consumer(kafka.consumer_config(group))
    try:
        return {
            partition.number: choose_offset(partition, start)
            for partition in _partitions(consumer, topic)
        }
    except KafkaException as error:
        raise Unavailable(
            f"Kafka at {kafka.bootstrap} did not tell the offsets of {topic}: {error}; is it up, "
            f"and may this user read the topic and the group {group}?"
        ) from error
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[Partition]:
    metadata = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
    if metadata.error is not None:
        raise Unavailable(f"topic {topic}: {metadata.error}; create it by `tidemill topics`")
    asked = [TopicPartition(topic, number) for number in sorted(metadata.partitions)]
    found = []
    for answer in _committed(consumer, asked):
        first, end = consumer.get_watermark_offsets(answer, timeout=_TIMEOUT_S)
        committed = answer.offset if answer.offset >= 0 else None
        found.append(Partition(answer.partition, first, end, committed))
    return found


def _committed(consumer: Consumer, asked: list[TopicPartition]) -> list[TopicPartition]:
    """A broker that has just started has no coordinator for a moment: ask again until it has."""
    until_s = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return consumer.committed(asked, timeout=_TIMEOUT_S)
        except KafkaException as error:
            if not _passes(error.args[0]) or time.monotonic() >= until_s:
                raise
            time.sleep(0.2)


def _passes(error: KafkaError) -> bool:
    return error.code() in (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )
