"""One lane: its frames on their way, its duplicates' window and the ids of its state entries.

Pure: the Flink adapter `lane_fn.py` carries out what this decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from operators.dedup import DedupWindow
from operators.pending import FinishedFrame
from operators.records import LaneFrame


@dataclass(slots=True)
class Lane:
    """``ids`` are the state entries of frames that are not finished; ``ready`` waits to be emitted.

    ``next_id`` is never used twice, not even after a restart, so an answer finds its own frame.
    """

    key: Any
    seen: DedupWindow | None
    ids: set[int] = field(default_factory=set)
    ready: list[FinishedFrame] = field(default_factory=list)
    next_id: int = 0
    timer_set: bool = False
    duplicates: int = 0

    def restore(self, ids: Iterable[int]) -> list[int]:
        """Take over the state entries of an earlier attempt; returns them oldest first."""
        self.ids = set(ids)
        self.next_id = max(self.ids, default=-1) + 1
        return sorted(self.ids)

    def admit(self, frame: LaneFrame, now_ms: int) -> tuple[LaneFrame | None, int, bytes]:
        """What of ``frame`` is new (``frame`` itself if all is), and the slot and bytes to remember.

        A duplicate gets no second model call and no second record: its answer is its twin's.
        """
        if self.seen is None:
            return frame, 0, b""
        new, chunk, slot = self.seen.filter(frame.tasks, frame.attempts, now_ms)
        if all(new):
            return frame, slot, chunk
        self.duplicates += len(new) - sum(new)
        if not any(new):
            return None, slot, chunk
        return frame.select([row for row, is_new in enumerate(new) if is_new]), slot, chunk

    def take_id(self) -> int:
        """The id of a new state entry."""
        self.next_id += 1
        self.ids.add(self.next_id - 1)
        return self.next_id - 1

    def take_ready(self) -> list[FinishedFrame]:
        """Frames that are finished and leave the state now."""
        ready, self.ready = self.ready, []
        self.ids.difference_update(frame.id for frame in ready)
        return ready
