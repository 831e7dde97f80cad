"""Recorded events with their outcomes, in the order of their event time; what all data sets share.

Decides: the shape of an event, how a file is found and hashed, what "later time" means.
Must not know: any one data set, torch, Kafka.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.spec import FeatureSpec, OutputSpec
from tidemill.errors import SettingsError

Value = float | str | None


class DataError(SettingsError):
    """The recorded data can't be read: give the right folder."""


@dataclass(frozen=True, slots=True)
class Event:
    """One order as it was known at `event_time_ms`, and what became of it.

    `label` is the outcome (unit: the data set's output), known from `label_time_ms` on.
    """

    order_id: str
    event_time_ms: int
    key: str
    zone: str
    features: dict[str, Value]
    label: float
    label_time_ms: int

    def to_json(self) -> dict[str, object]:
        """The event as it is sent; a missing feature is left out. The outcome isn't known yet."""
        known = {name: value for name, value in self.features.items() if value is not None}
        return {
            "order_id": self.order_id,
            "event_id": self.order_id,
            "event_time_ms": self.event_time_ms,
            "key": self.key,
            "zone": self.zone,
            "features": known,
        }


@dataclass(frozen=True, slots=True)
class Dataset:
    """A named data set: its files, its reader, and the model it is for.

    `features` without categories: they are taken from the training part. `rule_features` are what
    a dispatcher would look at, with the edges of their classes (none for a category).
    """

    name: str
    folder: str
    files: tuple[str, ...]
    read: Callable[[Path], list[Event]]
    features: tuple[FeatureSpec, ...]
    output: OutputSpec
    rule_features: tuple[tuple[str, tuple[float, ...]], ...]
    note: str

    def path(self, data: Path) -> Path:
        """The folder of the files: `data` itself or its subfolder. Raises DataError."""
        for folder in (data / self.folder, data):
            if all((folder / name).is_file() for name in self.files):
                return folder
        raise DataError(
            f"{self.name}: no {' and '.join(self.files)} in {data} or {data / self.folder}."
            f" {self.note}"
        )

    def load(self, data: Path) -> list[Event]:
        """All events, by event time. Raises DataError."""
        events = self.read(self.path(data))
        events.sort(key=lambda event: event.event_time_ms)
        return events

    def data_hash(self, data: Path) -> str:
        """sha256 over the files, in order."""
        digest = hashlib.sha256()
        for name in self.files:
            digest.update((self.path(data) / name).read_bytes())
        return digest.hexdigest()


def read_csv(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a gzipped CSV. Raises DataError."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} can't be read: {error}") from error


def number(text: str) -> float | None:
    """A cell of a CSV; None if it is empty."""
    return float(text) if text else None


def split_by_time(
    events: Sequence[Event], train_share: float
) -> tuple[Sequence[Event], Sequence[Event]]:
    """The earlier part, and the later one. Of the earlier, only what was answered before the later.

    `events` are in order of time. Never a random split: a model is judged by days it hasn't seen.
    """
    cut = events[int(len(events) * train_share)].event_time_ms
    earlier = [e for e in events if e.event_time_ms < cut and e.label_time_ms < cut]
    later = [e for e in events if e.event_time_ms >= cut]
    return earlier, later
