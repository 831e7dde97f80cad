"""The newest records of a topic, for the commands that look at topics; and one record by its place."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidemill.errors import InvalidEvent, Unavailable
from tidemill.settings import Settings

_QUERY_S: Final = 10.0
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record as it lies in Kafka."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    @property
    def place(self) -> str:
        """`partition:offset`, how the commands name a record."""
        return f"{self.partition}:{self.offset}"

    def header(self, name: str) -> str:
        """A header as text, empty if absent; of duplicates the last."""
        return (dict(self.headers).get(name) or b"").decode("utf-8", "replace")

    def shown(self, prefix: str) -> dict[str, Any]:
        """Plain values for showing; headers that begin with ``prefix`` come first, without it."""
        own = {
            n.removeprefix(prefix): self.header(n) for n, _ in self.headers if n.startswith(prefix)
        }
        return {
            "place": self.place,
            **own,
            "key": _text(self.key),
            "value": _text(self.value),
            "headers": {n: self.header(n) for n, _ in self.headers if not n.startswith(prefix)},
        }


class TopicTail:
    """Reads a topic without a group; nothing is committed."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._topic = topic
        config = settings.kafka.consumer_config(
            f"tidemill-cli-{uuid.uuid4()}", reset="earliest", read_committed=True
        )
        self._consumer = Consumer(config | {"enable.partition.eof": "true"})

    def newest(self, limit: int) -> list[TopicRecord]:
        """At most ``limit`` records, the oldest first."""
        starts = [
            TopicPartition(self._topic, p, max(low, high - limit))
            for p, (low, high) in self._ends().items()
        ]
        records = sorted(self._read_to_end(starts), key=lambda r: (r.timestamp_ms, r.offset))
        return records[-limit:]

    def follow(self, limit: int) -> Iterator[TopicRecord]:
        """The newest ``limit`` records, then each one that comes; ends never."""
        yield from self.newest(limit)
        while True:  # the same assignment goes on where the ends were
            record = self._poll()
            if isinstance(record, TopicRecord):
                yield record

    def one(self, place: str) -> TopicRecord:
        """The record at `partition:offset`; raises InvalidEvent if there is none."""
        partition, _, offset = place.partition(":")
        if not (partition.isdigit() and offset.isdigit()):
            raise InvalidEvent(f"{place!r} is no place of a record: give PARTITION:OFFSET")
        low, high = self._ends().get(int(partition), (0, 0))
        if not low <= int(offset) < high:
            raise InvalidEvent(f"{self._topic} has no record at {place}")
        start = TopicPartition(self._topic, int(partition), int(offset))
        for record in self._read_to_end([start]):
            if record.place == place:
                return record
            break
        raise InvalidEvent(f"{self._topic} has no record at {place}")

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _ends(self) -> dict[int, tuple[int, int]]:
        try:
            found = self._consumer.list_topics(self._topic, _QUERY_S).topics[self._topic]
            if found.error is not None:
                raise Unavailable(f"topic {self._topic}: {found.error.str()}")
            return {
                p: self._consumer.get_watermark_offsets(TopicPartition(self._topic, p), _QUERY_S)
                for p in found.partitions
            }
        except KafkaException as error:
            raise Unavailable(f"topic {self._topic}: {error.args[0].str()}") from error

    def _read_to_end(self, starts: list[TopicPartition]) -> Iterator[TopicRecord]:
        self._consumer.assign(starts)
        left = {start.partition for start in starts}
        while left:
            record = self._poll()
            if isinstance(record, TopicRecord):
                yield record
            elif record is not None:
                left.discard(record)

    def _poll(self) -> TopicRecord | int | None:
        """A record, the number of a partition that ended, or None if nothing came."""
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return None
        error = message.error()
        if error is None:
            return _record(message)
        if error.code() == KafkaError._PARTITION_EOF:
            return message.partition()
        if error.retriable() or error.code() == KafkaError._ALL_BROKERS_DOWN:
            return None
        raise Unavailable(f"topic {self._topic}: {error.str()}")


def _record(message: Message) -> TopicRecord:
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return TopicRecord(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=_bytes(message.key()),
        value=message.value(),
        headers=headers,
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
