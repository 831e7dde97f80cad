"""Recorded events, sent again with their own event times.

Decides: which events, when each is due, what is sent. The command line gives it the producer's
settings. Event times go into the record's timestamp, which is the only clock that the job reads.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from models.catalogue import DATASETS, default_data
from tidemill.contracts import HEADER_TASK_ID
from tidemill.errors import NotDelivered, SettingsError

POLL_S = 0.05
FLUSH_S = 30.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """One event to be sent. `time_ms` = its event time; `task` = its task id, None to derive one."""

    time_ms: int
    key: bytes | None
    value: bytes
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """When the event number `index` is due, in s from the start.

    `rate` > 0: so many a second. Else `speed` times as fast as they happened; 0 = at once.
    """

    speed: float = 1.0
    rate: float = 0.0

    def due_s(self, index: int, since_first_ms: int) -> float:
        """Time from the start until it is sent."""
        if self.rate > 0:
            return index / self.rate
        return since_first_ms / 1000 / self.speed if self.speed > 0 else 0.0


def read_events(source: str, data: Path | None = None) -> Iterator[Recorded]:
    """A data set by name, or a file .jsonl or .jsonl.gz of events, one a line, in their order.

    Each line needs `event_time_ms`; `key` and `task_id` are optional. Raises SettingsError naming
    the line, or DataError.
    """
    if source in DATASETS:
        dataset = DATASETS[source]
        for event in dataset.load(data or default_data(dataset)):
            yield recorded(event.to_json())
        return
    path = Path(source)
    if not path.is_file():
        raise SettingsError(f"no file {source} and no data set of that name: {sorted(DATASETS)}")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _parsed(path, number, line)


def _parsed(path: Path, number: int, line: str) -> Recorded:
    try:
        return recorded(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path} line {number} is no event with event_time_ms: {error!r}"
        ) from error


def recorded(event: Mapping[str, Any]) -> Recorded:
    """An event's JSON as a record. Raises KeyError, TypeError or ValueError."""
    key = event.get("key")
    task = event.get("task_id")
    return Recorded(
        time_ms=int(event["event_time_ms"]),
        key=None if key is None else str(key).encode(),
        value=json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode(),
        task=None if task is None else str(task),
    )


def shifted(events: Iterable[Recorded], now_ms: int) -> Iterator[Recorded]:
    """The same events as if the first happened now: their times move together, bodies included."""
    offset_ms: int | None = None
    for event in events:
        if offset_ms is None:
            offset_ms = now_ms - event.time_ms
        body = json.loads(event.value)
        body["event_time_ms"] = event.time_ms + offset_ms
        yield replace(recorded(body), task=event.task)


@dataclass(slots=True)
class ReplayCount:
    """What became of a replay; `first_ms` and `last_ms` are event times."""

    sent: int = 0
    failed: int = 0
    first_ms: int = 0
    last_ms: int = 0
    last_error: str = ""


class Replayer:
    """Sends events to one topic at their pace. Blocks; `stop` ends it from a signal handler."""

    def __init__(self, producer: Producer, topic: str, pace: Pace) -> None:
        self._producer = producer
        self._topic = topic
        self._pace = pace
        self._stopped = False
        self.count = ReplayCount()

    def stop(self) -> None:
        """Send nothing more; what is sent already is still confirmed."""
        self._stopped = True

    def run(
        self, events: Iterable[Recorded], progress: Callable[[ReplayCount], None] | None = None
    ) -> ReplayCount:
        """Send all. Raises NotDelivered if the broker didn't confirm each of them."""
        start_s, told_s = time.monotonic(), 0.0
        for index, event in enumerate(events):
            if index == 0:
                self.count.first_ms = event.time_ms
            self._wait(start_s + self._pace.due_s(index, event.time_ms - self.count.first_ms))
            if self._stopped:
                break
            self._send(event)
            self.count.sent += 1
            self.count.last_ms = event.time_ms
            if progress is not None and (now_s := time.monotonic()) - told_s > 1:
                told_s = now_s
                progress(self.count)
        unconfirmed = self._producer.flush(FLUSH_S) + self.count.failed
        if unconfirmed:
            raise NotDelivered(
                f"{unconfirmed} of {self.count.sent} events were not confirmed by the broker:"
                f" {self.count.last_error or f'no answer in {FLUSH_S:.0f} s'}"
            )
        return self.count

    def _wait(self, due_s: float) -> None:
        self._producer.poll(0)
        while not self._stopped and (left_s := due_s - time.monotonic()) > 0:
            self._producer.poll(min(left_s, POLL_S))

    def _send(self, event: Recorded) -> None:
        headers: list[tuple[str, str | bytes | None]] = (
            [] if event.task is None else [(HEADER_TASK_ID, event.task.encode())]
        )
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    event.value,
                    event.key,
                    timestamp=event.time_ms,
                    headers=headers,
                    on_delivery=self._confirmed,
                )
            except BufferError:  # the queue is full: wait until the broker has taken some
                self._producer.poll(POLL_S)
            else:
                return

    def _confirmed(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.count.failed += 1
            self.count.last_error = str(error)


def retention_warning(retention_ms: int, oldest_ms: int, now_ms: int, topic: str) -> str | None:
    """A warning if the topic would delete events as old as `oldest_ms` soon; None if it won't."""
    if retention_ms < 0 or oldest_ms >= now_ms - retention_ms:
        return None
    return (
        f"topic {topic} keeps records for {retention_ms / 86_400_000:g} days, these are"
        f" {(now_ms - oldest_ms) / 86_400_000:.0f} days old: the broker may delete them at once;"
        " set retention.ms=-1 on it, or shift their times with --now"
    )
