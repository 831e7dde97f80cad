"""Reads answers from the result topic; blocking, so the asyncio client runs it on a thread."""

from __future__ import annotations

import uuid
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tidemill.answer import Answer
from tidemill.errors import Unavailable
from tidemill.settings import Settings

_POLL_S: Final = 0.2
_BATCH_ROWS: Final = 256
_METADATA_S: Final = 10.0


class Results:
    """A reader of the result topic that sees committed answers only.

    With ``group`` it goes on where the group stopped: what was handed out is committed before more
    is read, so each answer comes at least once.  Without, it reads all partitions from ``start``
    ("earliest", or "latest": what comes from now on).  Unless ``follow``, it ends at the end.
    """

    def __init__(self, settings: Settings, *, group: str | None, follow: bool, start: str) -> None:
        self._topic = settings.topics.results
        self._follow = follow
        self._group = group
        self._ended: set[int] = set()
        self._handed_out = False
        name = group or f"tidemill-results-{uuid.uuid4()}"
        config = settings.kafka.consumer_config(name, reset=start, read_committed=True)
        config |= {
            "enable.auto.offset.store": "true",
            "enable.partition.eof": str(not follow).lower(),
        }
        self._consumer = Consumer(config)
        try:
            self._begin(start)
        except KafkaException as error:
            self._consumer.close()
            raise Unavailable(f"topic {self._topic}: {error.args[0].str()}") from error

    def next_batch(self) -> list[Answer] | None:
        """The next answers, perhaps none yet; None at the end.  Blocks for 0.2 s at most.

        Raises Unavailable if Kafka refuses, and ContractError for a result of another version.
        """
        if self._group is not None and self._handed_out:
            self._consumer.commit(asynchronous=True)
            self._handed_out = False
        if not self._follow and self._at_end():
            return None
        first = self._consumer.poll(_POLL_S)
        if first is None:
            return []
        # consume() alone would wait for a full batch or its whole time-out
        messages = [first, *self._consumer.consume(_BATCH_ROWS - 1, 0)]
        values = [value for m in messages if (value := self._value(m)) is not None]
        self._handed_out = bool(values)
        return [Answer.from_json(value) for value in values]

    def close(self) -> None:
        """Leave the group; what was handed out last is read again by its next member."""
        self._consumer.close()

    def _begin(self, start: str) -> None:
        if self._group is not None:
            self._consumer.subscribe([self._topic])
            return
        metadata = self._consumer.list_topics(self._topic, _METADATA_S).topics[self._topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        self._consumer.assign([self._at(p, start) for p in metadata.partitions])

    def _at(self, partition: int, start: str) -> TopicPartition:
        at = TopicPartition(self._topic, partition, OFFSET_BEGINNING)
        if start == "latest":  # now, not when the first fetch resolves it
            _, at.offset = self._consumer.get_watermark_offsets(at, _METADATA_S)
        return at

    def _at_end(self) -> bool:
        assigned = {at.partition for at in self._consumer.assignment()}
        return bool(assigned) and assigned <= self._ended

    def _value(self, message: Message) -> bytes | None:
        error = message.error()
        if error is None:
            return message.value()
        if error.code() == KafkaError._PARTITION_EOF:  # how the client names it
            self._ended.add(message.partition() or 0)
            return None
        if error.retriable() or error.code() == KafkaError._ALL_BROKERS_DOWN:
            return None
        raise Unavailable(f"topic {self._topic}: {error.str()}")
