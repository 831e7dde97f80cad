"""Where a job without a savepoint begins to read each partition: decided once, when it is submitted.

The source then runs with no reset policy: a committed offset that retention has deleted stops the
job with an error instead of a silent jump over the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

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
    """The offset of each partition of ``topic``.  Raises Unavailable or SettingsError."""
    consumer = Consumer(kafka.consumer_config(f"{group}-offsets"))
    try:
        metadata = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        if metadata.error is not None:
            raise Unavailable(f"topic {topic}: {metadata.error}; create it by `tidemill topics`")
        numbers = sorted(metadata.partitions)
        committed = _committed(kafka, topic, group, numbers)
        found: dict[int, int] = {}
        for number in numbers:
            first, end = consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=_TIMEOUT_S
            )
            partition = Partition(number, first, end, committed.get(number))
            found[number] = choose_offset(partition, start)
        return found
    finally:
        consumer.close()


def _committed(kafka: KafkaSettings, topic: str, group: str, numbers: list[int]) -> dict[int, int]:
    """Offsets that ``group`` has committed; asked as an admin, so that the group gets no member."""
    admin = AdminClient(dict(kafka.client_config()))
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in numbers])
    (future,) = admin.list_consumer_group_offsets([asked], request_timeout=_TIMEOUT_S).values()
    partitions = future.result().topic_partitions
    return {p.partition: p.offset for p in partitions if p.error is None and p.offset >= 0}
