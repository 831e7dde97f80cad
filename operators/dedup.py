"""The window of tasks seen by a lane, so that a record sent twice is scored once.

Pure: returns the bytes to store and the slot to store them in.  State is a ring of slots; a frame adds one
chunk to the current slot, and a whole slot is dropped at once when it is older than the window or
when there are too many rows.  So memory and state are bounded without a timer a row.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from tidemill.errors import ContractError

DIGEST_BYTES: Final = 16  # two different tasks among 10^9 collide with a chance of 10^-21
_HEAD: Final = struct.Struct("<BqQ")  # version, start of the slot in ms, number of the slot
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class DedupPolicy:
    """A pair is remembered for at least ``window_ms``, or for the last ``max_rows`` new rows or so.

    It is forgotten a slot at a time: at most ``window_ms / (slots - 1)`` later.
    """

    window_ms: int = 120_000
    max_rows: int = 100_000
    slots: int = 8

    def __post_init__(self) -> None:
        if self.slots < 2 or self.window_ms < 1 or self.max_rows < self.slots:
            raise ValueError(
                f"{self}: at least 2 slots, a window of 1 ms and as many rows as slots are needed"
            )

    @property
    def slot_ms(self) -> int:
        """How long a slot is filled."""
        return -(-self.window_ms // (self.slots - 1))

    @property
    def slot_rows(self) -> int:
        """How many rows fill a slot before its time is over."""
        return self.max_rows // self.slots


@dataclass(slots=True)
class _Slot:
    number: int
    start_ms: int
    digests: list[bytes] = field(default_factory=list)


class DedupWindow:
    """What one lane has seen."""

    def __init__(self, policy: DedupPolicy) -> None:
        self._policy = policy
        self._seen: set[bytes] = set()
        self._slots: deque[_Slot] = deque()
        self._next_number = 0
        self._starts = False

    def __len__(self) -> int:
        return len(self._seen)

    def filter(
        self, tasks: Sequence[str], attempts: Sequence[int], now_ms: int
    ) -> tuple[list[bool], bytes, int]:
        """Which rows are new, the chunk that remembers them (empty if none is), and its slot.

        The chunk must be stored in the same step that takes the rows over.
        """
        slot = self._current(now_ms)
        before = len(slot.digests)
        seen, digests, mask = self._seen, slot.digests, list[bool]()
        for task, attempt in zip(tasks, attempts, strict=True):
            digest = blake2b(f"{attempt} {task}".encode(), digest_size=DIGEST_BYTES).digest()
            is_new = digest not in seen
            if is_new:
                seen.add(digest)
                digests.append(digest)
            mask.append(is_new)
        self._starts = before == 0
        index = slot.number % self._policy.slots
        if len(digests) == before:
            return mask, b"", index
        head = _HEAD.pack(_VERSION, slot.start_ms, slot.number)
        return mask, head + b"".join(digests[before:]), index

    def starts_slot(self, slot: int) -> bool:
        """Whether the last chunk is the first of ``slot``: what is stored there is to be cleared."""
        return self._starts and slot == self._slots[-1].number % self._policy.slots

    def restore(self, chunks_by_slot: Mapping[int, Iterable[bytes]], now_ms: int) -> None:
        """Take over stored chunks; those older than the window are left out."""
        found: dict[int, _Slot] = {}
        for chunk in (bytes(c) for chunks in chunks_by_slot.values() for c in chunks):
            start_ms, number = _read_head(chunk)
            slot = found.setdefault(number, _Slot(number, start_ms))
            body = chunk[_HEAD.size :]
            slot.digests += [
                body[at : at + DIGEST_BYTES] for at in range(0, len(body), DIGEST_BYTES)
            ]
        self._next_number = max(found, default=-1) + 1
        self._slots = deque(found[number] for number in sorted(found)[-self._policy.slots :])
        self._seen = set()
        self._expire(now_ms)  # first: a pair may be in an expired slot and again in a living one
        self._seen = {digest for slot in self._slots for digest in slot.digests}

    def _current(self, now_ms: int) -> _Slot:
        """The slot to fill; starts the next one if its time or its rows are used up."""
        self._expire(now_ms)
        policy = self._policy
        if self._slots:
            slot = self._slots[-1]
            if now_ms - slot.start_ms < policy.slot_ms and len(slot.digests) < policy.slot_rows:
                return slot
        if len(self._slots) == policy.slots:
            self._drop()
        self._slots.append(_Slot(self._next_number, now_ms))
        self._next_number += 1
        return self._slots[-1]

    def _expire(self, now_ms: int) -> None:
        policy = self._policy
        while self._slots and now_ms - self._slots[0].start_ms >= policy.slot_ms * policy.slots:
            self._drop()

    def _drop(self) -> None:
        self._seen.difference_update(self._slots.popleft().digests)


def _read_head(chunk: bytes) -> tuple[int, int]:
    if len(chunk) < _HEAD.size or (len(chunk) - _HEAD.size) % DIGEST_BYTES:
        raise ContractError(
            f"dedup state of {len(chunk)} bytes is not whole: start without this savepoint"
        )
    version, start_ms, number = _HEAD.unpack_from(chunk)
    if version != _VERSION:
        raise ContractError(
            f"dedup state has version {version}, this program reads {_VERSION}: restore with the"
            " release that wrote the savepoint"
        )
    return start_ms, number
