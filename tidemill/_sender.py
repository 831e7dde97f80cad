"""Produces records: idempotent, confirmed by all replicas, on the partitions that Java would pick.

A thread polls the producer, because only polling calls the delivery callbacks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidemill.errors import InvalidEvent, NotDelivered, TidemillError, Unavailable
from tidemill.events import Record
from tidemill.settings import KafkaSettings

_LOG: Final = logging.getLogger("tidemill.kafka")
# librdkafka logs each failed connection; the program that uses us decides whether to show it
_LOG.addHandler(logging.NullHandler())
Done = Callable[[TidemillError | None], None]
_POLL_S: Final = 0.2
_TIMEOUT_MS: Final = 10_000  # librdkafka's own 5 minutes are no time for a caller who waits


class Sender:
    """A producer with its polling thread; safe to call from any thread."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._config: dict[str, Any] = {"delivery.timeout.ms": str(_TIMEOUT_MS)}
        self._config |= settings.producer_config()
        self._bootstrap = settings.bootstrap
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None

    @property
    def timeout_s(self) -> float:
        """How long librdkafka tries to deliver a record."""
        return float(self._config["delivery.timeout.ms"]) / 1000

    def send(self, record: Record, done: Done) -> None:
        """Queue the record; ``done`` is called on the polling thread with None or an error.

        Never blocks.  Raises InvalidEvent if the record is too large for the client, and
        Unavailable if its queue is full.
        """

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            done(None if error is None else self._undelivered(error, record))

        try:
            self._running().produce(
                record.topic,
                value=record.value,
                key=record.key,
                headers=cast("list[tuple[str, str | bytes | None]]", record.headers),
                timestamp=record.timestamp_ms,
                on_delivery=on_delivery,
            )
        except BufferError as error:
            raise Unavailable(
                "the producer's queue is full: send slower, or raise kafka.client's "
                "queue.buffering.max.messages"
            ) from error
        except KafkaException as error:
            raise self._refused(error, record) from error

    def close(self, timeout_s: float) -> None:
        """Deliver what is queued, for ``timeout_s`` at most, and stop."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        if self._producer is not None:
            self._producer.flush(timeout_s)
            self._producer = None

    def _running(self) -> Producer:
        with self._lock:
            if self._producer is None:
                self._producer = self._new_producer()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._poll, name="tidemill-producer", daemon=True
                )
                self._thread.start()
            return self._producer

    def _new_producer(self) -> Producer:
        try:
            return Producer(self._config, logger=_LOG)
        except KafkaException as error:
            raise Unavailable(f"a Kafka producer can't be made: {error.args[0].str()}") from None

    def _poll(self) -> None:
        while not self._closed.is_set():
            producer = self._producer
            if producer is None:
                self._closed.wait(_POLL_S)
            else:
                producer.poll(_POLL_S)

    def _undelivered(self, error: KafkaError, record: Record) -> TidemillError:
        if error.fatal():
            with self._lock:
                self._producer = None  # it can produce no more: the next record gets a new one
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return _too_large(record)
        return NotDelivered(
            f"Kafka at {self._bootstrap} did not confirm task {record.task_id}: {error.str()}; "
            "send it again under the same task id",
            record.task_id,
        )

    def _refused(self, error: KafkaException, record: Record) -> TidemillError:
        return self._undelivered(error.args[0], record)


def unreported(record: Record, limit_s: float) -> NotDelivered:
    """The error of a record of which nothing was heard."""
    return NotDelivered(
        f"no report about task {record.task_id} within {limit_s:.0f} s: send it again under the "
        "same task id",
        record.task_id,
    )


def _too_large(record: Record) -> InvalidEvent:
    return InvalidEvent(
        f"task {record.task_id} with {len(record.value)} bytes is over Kafka's limit for "
        f"{record.topic}: send a reference to the large part, or raise max.message.bytes"
    )
