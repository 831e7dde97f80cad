"""Gathers what became of the orders from Kafka and Redis, and counts it against the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from redis import Redis

from deploy.demo.ledger import Entry
from deploy.demo.plan import RECORD_HEADER
from deploy.demo.tally import Found, Letter, Order, Report, tally
from deploy.demo.topic_reader import Read, TopicReader
from tidemill.contracts import DLQ_PREFIX, HEADER_TASK_ID, LATE_PREFIX, result_key
from tidemill.settings import Settings

_KEYS_AT_ONCE: Final = 500
_AGAIN_S: Final = 1.0


class Checker:
    """Reads the topics of orders, results, late records and dead letters, and every answer."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        self._settings = settings
        self._redis = redis

    def check(
        self,
        entries: Sequence[Entry],
        heard_ms: Callable[[], Mapping[str, float]],
        patience_s: float,
    ) -> Report:
        """Count; what is on its way still may come for ``patience_s``. Raises Unavailable."""
        end_s = time.monotonic() + patience_s
        reader = TopicReader(self._settings)
        try:
            while True:
                found = self._gather(reader, entries, heard_ms())
                report = tally(entries, found, strict=self._settings.job.mode == "strict")
                if not report.problems or time.monotonic() > end_s:
                    return report
                time.sleep(_AGAIN_S)
        finally:
            reader.close()

    def _gather(
        self, reader: TopicReader, entries: Iterable[Entry], heard_ms: Mapping[str, float]
    ) -> Found:
        settings = self._settings
        orders = [_order(record) for record in reader.read(settings.topics.orders)]
        results = reader.read(settings.topics.results)
        late = reader.read(settings.late_topic)
        letters = [_letter(record) for record in reader.read(settings.dlq_topic)]
        tasks = sorted({entry.task for entry in entries if entry.task is not None})
        return Found(
            orders=orders,
            results=[(r.text(HEADER_TASK_ID), r.value or b"") for r in results],
            late=[(r.text(HEADER_TASK_ID), int(r.text(f"{LATE_PREFIX}lateness-ms"))) for r in late],
            letters=letters,
            answers=read_answers(self._redis, settings.prefix, tasks),
            heard_ms=heard_ms,
        )


def read_answers(redis: Redis, prefix: str, tasks: Sequence[str]) -> dict[str, bytes | None]:
    """The answer of each task as it is in Redis now, None if there is none."""
    answers: dict[str, bytes | None] = {}
    for start in range(0, len(tasks), _KEYS_AT_ONCE):
        some = tasks[start : start + _KEYS_AT_ONCE]
        values = cast("list[bytes | None]", redis.mget([result_key(prefix, task) for task in some]))
        answers.update(zip(some, values, strict=True))
    return answers


def _order(record: Read) -> Order:
    name = record.text(HEADER_TASK_ID) or record.text(RECORD_HEADER)
    return Order((record.partition, record.offset), name, record.value)


def _letter(record: Read) -> Letter:
    place = int(record.text(f"{DLQ_PREFIX}partition")), int(record.text(f"{DLQ_PREFIX}offset"))
    return Letter(place, record.text(f"{DLQ_PREFIX}reason"), record.value)
