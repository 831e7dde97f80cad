"""Reads a topic from its beginning to its end, with a consumer of its own."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidemill.errors import Unavailable
from tidemill.settings import Settings

_QUERY_S: Final = 10.0
_POLL_S: Final = 0.1  # a batch that is not full waits so long
_SILENCE_S: Final = 20.0
_BATCH: Final = 1000

# librdkafka would print each refused connection; what matters is raised
QUIET: Final = logging.getLogger("tidemill.demo")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


@dataclass(frozen=True, slots=True)
class Read:
    """One record as it lies in the topic; of duplicate headers the last."""

    partition: int
    offset: int
    value: bytes | None
    headers: dict[str, bytes | None]

    def text(self, header: str) -> str:
        """A header as text, empty if absent."""
        return (self.headers.get(header) or b"").decode("utf-8", "replace")


class TopicReader:
    """Reads whole topics; nothing is committed. Use it from one thread, and close it."""

    def __init__(self, settings: Settings) -> None:
        config: dict[str, Any] = settings.kafka.consumer_config(
            f"tidemill-demo-{uuid.uuid4()}", reset="earliest", read_committed=True
        ) | {"enable.partition.eof": "true"}
        self._consumer = Consumer(config, logger=QUIET)

    def read(self, topic: str) -> list[Read]:
        """Every record that is in the topic now. Raises Unavailable."""
        try:
            return list(self._read(topic))
        except KafkaException as error:
            raise Unavailable(f"topic {topic}: {error.args[0].str()}") from error

    def count(self, topic: str) -> int:
        """How many offsets the topic has used so far; transaction marks count too."""
        try:
            return sum(self._end(topic, p) for p in self._partitions(topic))
        except KafkaException as error:
            raise Unavailable(f"topic {topic}: {error.args[0].str()}") from error

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _partitions(self, topic: str) -> list[int]:
        return list(self._consumer.list_topics(topic, _QUERY_S).topics[topic].partitions)

    def _end(self, topic: str, partition: int) -> int:
        place = TopicPartition(topic, partition)
        _, end = self._consumer.get_watermark_offsets(place, _QUERY_S)
        return int(end)

    def _read(self, topic: str) -> Iterator[Read]:
        left = set(self._partitions(topic))
        self._consumer.assign([TopicPartition(topic, p, 0) for p in left])
        silent_s = 0.0
        while left:
            messages = self._consumer.consume(_BATCH, _POLL_S)
            silent_s = 0.0 if messages else silent_s + _POLL_S
            if silent_s > _SILENCE_S:
                raise Unavailable(f"topic {topic} could not be read to its end: is Kafka up?")
            for message in messages:
                error = message.error()
                if error is None:
                    yield _read_of(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                elif not error.retriable():
                    raise Unavailable(f"topic {topic}: {error.str()}")


def _read_of(message: Any) -> Read:
    return Read(
        message.partition(), message.offset(), message.value(), dict(message.headers() or [])
    )
