"""The values that go into and come out of the batching logic: chunks of rows, and decisions.

A decision says what is to be done and is carried out by the agent; nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Chunk:
    """Rows of one lane frame that travel together.

    ``frame`` identifies the lane frame, ``rows`` are row indices in it, ``deadlines_ms`` are their
    deadlines (epoch ms) in the same order.  ``group`` is set on rows of a failed batch that is
    being bisected: they are never merged with others again.
    """

    frame: int
    rows: Sequence[int]
    deadlines_ms: Sequence[float]
    group: int | None = None
    first_deadline_ms: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.rows or len(self.rows) != len(self.deadlines_ms):
            raise ValueError(
                f"a chunk needs one deadline a row and at least one row, got {len(self.rows)} rows "
                f"and {len(self.deadlines_ms)} deadlines; build it from a decoded lane frame"
            )
        self.first_deadline_ms = min(self.deadlines_ms)

    def __len__(self) -> int:
        return len(self.rows)

    def split(self, size: int, group: int | None = None) -> tuple[Chunk, Chunk]:
        """The first ``size`` rows and the rest, both non-empty."""
        group = self.group if group is None else group
        return (
            Chunk(self.frame, self.rows[:size], self.deadlines_ms[:size], group),
            Chunk(self.frame, self.rows[size:], self.deadlines_ms[size:], group),
        )

    def divide(self, before_ms: float) -> tuple[Chunk | None, Chunk | None]:
        """Rows whose deadline is before ``before_ms``, and the others (order kept)."""
        if self.first_deadline_ms >= before_ms:
            return None, self
        urgent = [i for i, deadline in enumerate(self.deadlines_ms) if deadline < before_ms]
        if len(urgent) == len(self.rows):
            return self, None
        chosen = set(urgent)
        others = [i for i in range(len(self.rows)) if i not in chosen]
        return self._pick(urgent), self._pick(others)

    def _pick(self, at: list[int]) -> Chunk:
        rows, deadlines = self.rows, self.deadlines_ms
        return Chunk(self.frame, [rows[i] for i in at], [deadlines[i] for i in at], self.group)


def halve(chunks: Sequence[Chunk], group: int) -> list[tuple[Chunk, ...]]:
    """Split rows that failed together into two parts of equal size (one part for a single row)."""
    total = sum(len(chunk) for chunk in chunks)
    room = total // 2
    parts: tuple[list[Chunk], list[Chunk]] = ([], [])
    for chunk in chunks:
        chunk.group = group
        if 0 < room < len(chunk):
            first, chunk = chunk.split(room, group)
            parts[0].append(first)
            room = 0
        parts[0 if room else 1].append(chunk)
        room = max(0, room - len(chunk))
    return [tuple(part) for part in parts if part]


@dataclass(frozen=True, slots=True)
class Send:
    """Send these rows to the worker, in this order, as batch ``batch_id``."""

    batch_id: int
    chunks: tuple[Chunk, ...]
    budget_ms: float


@dataclass(frozen=True, slots=True)
class Scored:
    """These rows of batch ``batch_id`` take their answer from its reply.

    ``positions[i]`` are the places in the reply of the rows of ``chunks[i]``.
    """

    batch_id: int
    chunks: tuple[Chunk, ...]
    positions: tuple[Sequence[int], ...]


@dataclass(frozen=True, slots=True)
class Degrade:
    """Answer these rows by the rule tier now; ``reason`` goes into the answer."""

    chunk: Chunk
    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer these rows without a score: status ``expired`` or ``rejected``."""

    chunk: Chunk
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailRow:
    """The model cannot score this one row: an error answer and a dead letter."""

    chunk: Chunk
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DropLink:
    """The worker makes no progress: close its connection, its rows are answered elsewhere."""

    reason: str


Decision = Send | Scored | Degrade | Refuse | FailRow | DropLink
