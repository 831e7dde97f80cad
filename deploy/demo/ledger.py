"""What was sent, one line a record, written before the record leaves.

The check at the end believes the ledger, not the job: a task in it is owed an answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from deploy.demo.plan import Kind, Sending


@dataclass(frozen=True, slots=True)
class Entry:
    """A record that was handed to Kafka. ``sent_ns`` is of the monotonic clock of the demo."""

    kind: Kind
    name: str
    event_ms: int
    sent_ns: int
    label: float | None = None

    @property
    def task(self) -> str | None:
        """The task that it names, None if it names none."""
        return None if self.kind is Kind.BAD else self.name

    @classmethod
    def of(cls, sending: Sending, sent_ns: int) -> Entry:
        """The entry of a record sent now."""
        return cls(sending.kind, sending.name, sending.event_ms, sent_ns, sending.label)

    @classmethod
    def from_json(cls, line: str) -> Entry:
        """Read a line of the file."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**(fields | {"kind": Kind(fields["kind"])}))

    def to_json(self) -> str:
        """The line of the file."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


class Ledger:
    """The entries, in memory and in a file; one thread adds, any may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.sent_ns: dict[str, int] = {}  # of each task, when it was sent first
        self.labels: dict[str, float | None] = {}
        self._file: TextIO = path.open("w", encoding="utf-8")

    def add(self, entry: Entry) -> None:
        """Note a record that leaves now."""
        self._file.write(entry.to_json() + "\n")
        if entry.task is not None:
            self.sent_ns.setdefault(entry.task, entry.sent_ns)
            self.labels.setdefault(entry.task, entry.label)
        self.entries.append(entry)

    def tasks_since(self, first: int) -> int:
        """How many tasks the entries from number ``first`` on name."""
        return len({entry.task for entry in self.entries[first:]} - {None})

    @property
    def counted(self) -> int:
        """How many tasks were sent, the warm-up's excepted."""
        return len({e.task for e in self.entries if e.task and e.kind is not Kind.WARMUP})

    def close(self) -> None:
        """Write what is buffered."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
