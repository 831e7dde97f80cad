"""Topics of one test, and writing and reading them without our own clients."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from deploy.kafka_admin import admin_client
from tidemill.settings import Settings, load_settings

LONG_S: Final = 30.0


def own_settings(
    stack: Settings, changes: Mapping[str, Any] | None = None, partitions: int = 2
) -> Settings:
    """The stack's settings with topics, group and Redis prefix of this test alone, all made."""
    mark = uuid.uuid4().hex[:8]
    names = {f"topics.{t}": f"{t}-{mark}" for t in ("orders", "results", "late", "dlq")}
    settings = load_settings(
        None,
        {},
        {
            "kafka.bootstrap": stack.kafka.bootstrap,
            "redis.host": stack.redis.host,
            "redis.port": stack.redis.port,
            "kafka.group": f"group-{mark}",
            "app.env": mark,
            **names,
            **(changes or {}),
        },
    )
    make_topics(settings, list(names.values()), partitions)
    return settings


def make_topics(settings: Settings, names: Sequence[str], partitions: int, **config: str) -> None:
    """Create topics and wait until they are there."""
    admin = admin_client(settings.kafka.client_config())
    new = [NewTopic(name, partitions, 1, config=config) for name in names]
    for future in admin.create_topics(new).values():
        future.result(LONG_S)
    for name in names:
        _wait_known(admin, name)


def _wait_known(admin: AdminClient, topic: str) -> None:
    """The controller has made the topic; the broker knows it a moment later."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    until_s = time.monotonic() + LONG_S
    while True:
        try:
            admin.describe_configs([resource])[resource].result(LONG_S)
        except KafkaException as error:
            unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unknown or time.monotonic() > until_s:
                raise
            time.sleep(0.05)
        else:
            return


def produce(settings: Settings, topic: str, records: Sequence[dict[str, Any]]) -> None:
    """Write records (arguments of Producer.produce) and wait for their delivery."""
    producer = Producer(settings.kafka.producer_config())
    errors: list[object] = []
    for record in records:
        producer.produce(
            topic, on_delivery=lambda error, _: errors.append(error) if error else None, **record
        )
    assert producer.flush(LONG_S) == 0
    assert errors == []


def read_all(settings: Settings, topic: str, count: int) -> list[Message]:
    """The first ``count`` committed records of a topic, by partition and offset."""
    config = settings.kafka.consumer_config(
        str(uuid.uuid4()), reset="earliest", read_committed=True
    )
    consumer = Consumer(config)
    try:
        found = consumer.list_topics(topic, LONG_S).topics[topic]
        consumer.assign([TopicPartition(topic, p, 0) for p in found.partitions])
        messages: list[Message] = []
        end = time.monotonic() + LONG_S
        while len(messages) < count and time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                messages.append(message)
        assert len(messages) == count, f"{topic} has {len(messages)} records, not {count}"
        return sorted(messages, key=lambda m: (m.partition(), m.offset()))
    finally:
        consumer.close()


def committed(settings: Settings, group: str, topic: str) -> dict[int, int]:
    """Committed offsets of a group; partitions without one are left out."""
    consumer = Consumer(settings.kafka.consumer_config(group))
    try:
        found = consumer.list_topics(topic, LONG_S).topics[topic]
        wanted = [TopicPartition(topic, p) for p in found.partitions]
        offsets = consumer.committed(wanted, LONG_S)
        return {at.partition: at.offset for at in offsets if at.offset >= 0}
    except KafkaException:
        return {}  # the coordinator of a new group may still be moving
    finally:
        consumer.close()


def ends(settings: Settings, topic: str) -> dict[int, int]:
    """The end offset of each partition, control records of transactions counted."""
    consumer = Consumer(settings.kafka.consumer_config(str(uuid.uuid4()), read_committed=True))
    try:
        found = consumer.list_topics(topic, LONG_S).topics[topic]
        return {
            p: consumer.get_watermark_offsets(TopicPartition(topic, p), LONG_S)[1]
            for p in found.partitions
        }
    finally:
        consumer.close()


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait for something that must come true."""
    end = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < end, f"it never came true: {what}"
        time.sleep(0.05)
