"""Panes of event time and the sliding window over them, as integer counts.

Merge is addition, a window is the sum of its panes, a slide adds panes and subtracts panes: exact in
any order, with no rest that floats would leave.  What a subtask counted in a pane is kept by (pane,
subtask, attempt): it is the subtask's count of that pane so far, so a replay puts the same number in
its place again instead of adding it.

A late count corrects its pane while the window contains it; after that it is only reported.  Time is event time in epoch ms; what is due depends on the watermark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift import codec
from drift.cells import Ints
from tidemill.errors import SettingsError

_KIND: Final = "drift panes"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PanePolicy:
    """Lengths in ms; a window and a slide are whole numbers of panes."""

    pane_ms: int = 60_000
    window_ms: int = 3_600_000
    slide_ms: int = 60_000

    def __post_init__(self) -> None:
        if self.pane_ms < 1 or self.slide_ms < 1 or self.slide_ms > self.window_ms:
            raise SettingsError(
                f"pane_ms {self.pane_ms}, slide_ms {self.slide_ms}, window_ms {self.window_ms}: each"
                " must be at least 1, and a slide no longer than its window"
            )
        if self.window_ms % self.pane_ms or self.slide_ms % self.pane_ms:
            raise SettingsError(
                f"window_ms {self.window_ms} and slide_ms {self.slide_ms} must be multiples of"
                f" pane_ms {self.pane_ms}"
            )

    def pane_of(self, time_ms: int) -> int:
        """Start of the pane that contains ``time_ms``."""
        return time_ms - time_ms % self.pane_ms

    def first_end(self, time_ms: int) -> int:
        """End of the first window that contains ``time_ms``."""
        return (time_ms // self.slide_ms + 1) * self.slide_ms


class Source(NamedTuple):
    """Who counted: a subtask in its n-th attempt (a restart is a new one)."""

    subtask: int
    attempt: int


class Put(StrEnum):
    """What became of a partial count; the values are the names of the counters."""

    TAKEN = "partials_taken"
    REPLACED = "partials_replaced"
    STALE = "partials_stale"  # from an attempt before the one that is known
    EXPIRED = "partials_expired"  # the window has left its pane


class _Partial(NamedTuple):
    attempt: int
    counts: NDArray[Any]


class PaneWindow:
    """The live panes and their sum: ``total`` int64 [features, width] over [end - window, end).

    ``project`` makes of a pane's counts the small 1-d form that dispersion needs; it is kept a pane.
    """

    def __init__(
        self,
        policy: PanePolicy,
        shape: tuple[int, ...],
        project: Callable[[Ints], Ints] = np.ravel,
    ) -> None:
        self.policy = policy
        self.end_ms: int | None = None
        """End of the last window that was evaluated; None before the first."""
        self.total: Ints = np.zeros(shape, np.int64)
        self.expired_rows = 0
        """Rows that came after the last window with their pane."""
        self._project = project
        self._panes: dict[int, dict[int, _Partial]] = {}
        self._sums: dict[int, Ints] = {}
        self._count = policy.window_ms // policy.pane_ms
        # one row a pane of the window, at its number modulo their count; zero where there is none
        self._ring = np.zeros((self._count, project(self.total).size))
        self._changed: set[int] = set()

    @property
    def _begin_ms(self) -> int | None:
        return None if self.end_ms is None else self.end_ms - self.policy.window_ms

    def put(self, pane_ms: int, source: Source, counts: Ints) -> Put:
        """Take what ``source`` has counted so far in the pane that starts at ``pane_ms``."""
        if counts.shape != self.total.shape or pane_ms % self.policy.pane_ms:
            raise ValueError(
                f"pane {pane_ms} with counts {counts.shape}: expected a multiple of"
                f" {self.policy.pane_ms} and {self.total.shape}"
            )
        if self._begin_ms is not None and pane_ms < self._begin_ms:
            self.expired_rows += int(counts[0].sum())
            return Put.EXPIRED
        partials = self._panes.setdefault(pane_ms, {})
        known = partials.get(source.subtask)
        if known is not None and known.attempt > source.attempt:
            return Put.STALE
        # narrow, since most of the memory is here: a quarter for panes of up to 65,535 rows
        partials[source.subtask] = _Partial(source.attempt, codec.narrow(counts))
        self._add(pane_ms, counts.astype(np.int64) if known is None else counts - known.counts)
        return Put.TAKEN if known is None else Put.REPLACED

    def _add(self, pane_ms: int, delta: Ints) -> None:
        before = self._sums.get(pane_ms)
        self._sums[pane_ms] = delta if before is None else before + delta
        self._changed.add(pane_ms)
        if self.end_ms is not None and pane_ms < self.end_ms:
            self.total += delta

    def slide_to(self, end_ms: int) -> None:
        """Move the window: add the panes before ``end_ms``, subtract those before its begin."""
        old_end = self.end_ms
        if end_ms % self.policy.slide_ms or (old_end is not None and end_ms <= old_end):
            raise ValueError(
                f"window end {end_ms} is not a multiple of {self.policy.slide_ms} after {old_end}"
            )
        self.end_ms, begin = end_ms, end_ms - self.policy.window_ms
        for pane in sorted(pane for pane in self._sums if pane < end_ms):
            if old_end is None or pane >= old_end:
                self.total += self._sums[pane]
            if pane < begin:
                self.total -= self._sums.pop(pane)
                del self._panes[pane]
                self._ring[self._slot(pane)] = 0.0
                self._changed.discard(pane)

    def due(self, watermark_ms: int) -> Iterator[int]:
        """Ends of the windows that are complete at ``watermark_ms``; slides to each in turn.

        After the first empty window of a gap the next is the first that has rows again, so a gap of
        a year is one report and not a hundred thousand.
        """
        while (end := self._next_end()) is not None and end <= watermark_ms:
            self.slide_to(end)
            yield end

    def _next_end(self) -> int | None:
        if self.end_ms is not None and self.total.any():
            return self.end_ms + self.policy.slide_ms
        known = (pane for pane, counts in self._sums.items() if counts.any())
        coming = min((pane for pane in known if not self._is_past(pane)), default=None)
        return None if coming is None else self.policy.first_end(coming)

    def _is_past(self, pane_ms: int) -> bool:
        return self.end_ms is not None and pane_ms < self.end_ms

    def _slot(self, pane_ms: int) -> int:
        return pane_ms // self.policy.pane_ms % self._count

    def panes(self) -> tuple[Ints, NDArray[np.float64]]:
        """Starts int64 [panes] and projected counts float64 [panes, groups] of the window's panes.

        In no order of time; a pane without rows is all zero.  The next slide overwrites the counts.
        """
        for pane in sorted(pane for pane in self._changed if self._is_past(pane)):
            self._ring[self._slot(pane)] = self._project(self._sums[pane])
            self._changed.discard(pane)
        first = (self._begin_ms or 0) // self.policy.pane_ms
        numbers = first + (np.arange(self._count, dtype=np.int64) - first) % self._count
        return numbers * self.policy.pane_ms, self._ring

    def snapshot(self) -> bytes:
        """Everything that is kept, for a checkpoint."""
        keys, blocks = [], []
        for pane, partials in sorted(self._panes.items()):
            for subtask, partial in sorted(partials.items()):
                keys.append((pane, subtask, partial.attempt))
                blocks.append(partial.counts)
        shape = (0, *self.total.shape)
        counts = np.stack(blocks) if blocks else np.empty(shape, np.int64)
        meta = {"end_ms": self.end_ms, "expired_rows": self.expired_rows}
        at = np.array(keys, np.int64).reshape(-1, 3)
        return codec.encode(
            _KIND, _VERSION, meta, keys=at, counts=codec.narrow(counts.astype(np.int64))
        )

    @classmethod
    def restore(
        cls, data: bytes, policy: PanePolicy, project: Callable[[Ints], Ints] = np.ravel
    ) -> PaneWindow:
        """A window that goes on where ``data`` was taken; raises ContractError on foreign bytes."""
        content = codec.decode(_KIND, _VERSION, data)
        counts: NDArray[Any] = content.arrays["counts"].astype(np.int64)
        window = cls(policy, counts.shape[1:], project)
        window.end_ms = content.meta["end_ms"]
        window.expired_rows = content.meta["expired_rows"]
        for (pane, subtask, attempt), block in zip(
            content.arrays["keys"].tolist(), counts, strict=True
        ):
            window.put(pane, Source(subtask, attempt), block)
        return window
