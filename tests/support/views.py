"""The topics that a job writes, seen from outside, and how to find one record in them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from tests.support.deployment import Deployment
from tests.support.kafka_view import Seen, TopicView
from tidemill.contracts import DLQ_HEADERS, LATE_HEADERS


class Views:
    """Results, feature log, late records and dead letters of one job."""

    def __init__(self, job: Deployment) -> None:
        self._orders = job.orders
        settings = job.settings
        self.results = TopicView(settings, settings.topics.results)
        self.features = TopicView(settings, settings.topics.features)
        self.late = TopicView(settings, settings.late_topic)
        self.dlq = TopicView(settings, settings.dlq_topic)

    def results_of(self, tasks: Iterable[str]) -> list[Seen]:
        """The result records of ``tasks``, once each has one."""
        return self.results.of_tasks(set(tasks))

    def result_of(self, task: str) -> Seen:
        """The one result record of ``task``."""
        (record,) = self.results_of([task])
        return record

    def settle(self, partition: int) -> None:
        """Return once the results of all orders of ``partition`` so far are in the topic."""
        marker = f"marker-{time.time_ns()}"
        self._orders.send(marker, partition=partition)
        self.results_of([marker])

    def close(self) -> None:
        """Leave the broker."""
        for view in (self.results, self.features, self.late, self.dlq):
            view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def record_of(view: TopicView, value: bytes | None, task: str = "") -> Seen:
    """The one record with ``value`` (and header task-id, if given), once it is there."""

    def found() -> list[Seen]:
        named = task.encode() or None
        return [
            record
            for record in view.records
            if record.value == value and (not task or record.header("task-id") == named)
        ]

    view.until(lambda _: bool(found()), f"the record {value!r:.60}")
    (record,) = found()
    return record


def dlq_headers(record: Seen) -> dict[str, str]:
    """What the job says about a dead letter."""
    return _texts(record, DLQ_HEADERS)


def late_headers(record: Seen) -> dict[str, str]:
    """What the job says about a late record."""
    return _texts(record, LATE_HEADERS)


def _texts(record: Seen, names: Iterable[str]) -> dict[str, str]:
    return {name: (record.header(name) or b"").decode() for name in names}
