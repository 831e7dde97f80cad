"""How frames of many connections become one batch, and its answer many replies again.

Decides: which frames go together, into which bucket, which rows of an answer are good.
Must not know: sockets, torch, clocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from models.messages import RowStatus

Block = npt.NDArray[np.float32]


_FEW = 512
_FINE = tuple(bytes(rows) for rows in range(_FEW + 1))
_ZEROS: Block = np.zeros(_FEW * 64, np.float32)


class OutputShapeError(ValueError):
    """The model returned another number of rows or columns than it was asked for."""


class HasRows(Protocol):
    """Anything that stands for a number of rows."""

    @property
    def rows(self) -> int: ...


T = TypeVar("T", bound=HasRows)


def take_batch(queue: deque[T], max_rows: int) -> list[T]:
    """Remove and return the oldest frames that fit into `max_rows` together, in order, each whole.

    The first always goes (the caller refuses frames over `max_rows` when they arrive).
    """
    taken: list[T] = []
    rows = 0
    while queue and (not taken or rows + queue[0].rows <= max_rows):
        frame = queue.popleft()
        rows += frame.rows
        taken.append(frame)
    return taken


def bucket_for(rows: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds `rows`. Raises ValueError if none does."""
    index = bisect_left(buckets, rows)
    if index == len(buckets):
        raise ValueError(f"{rows} rows are over the largest bucket, {buckets[-1]}")
    return buckets[index]


class Buffer:
    """The input block of the model, used again for every batch: float32 [max_rows, features]."""

    def __init__(self, max_rows: int, features: int) -> None:
        self._block: Block = np.zeros((max_rows, features), np.float32)
        self._bytes = memoryview(self._block.data).cast("B")
        self._row_bytes = 4 * features

    def fill(self, blocks: Sequence[memoryview], bucket: int) -> Block:
        """Copy the blocks into the first rows, zero the rest of the bucket, return its view."""
        at = 0
        for block in blocks:
            end = at + len(block)
            self._bytes[at:end] = block
            at = end
        rows = at // self._row_bytes
        if rows < bucket:
            self._block[rows:bucket] = 0.0
        return self._block[:bucket]


def checked(outputs: Any, bucket: int, columns: int) -> Block:
    """The model's answer as float32 [bucket, columns]. Raises OutputShapeError: never guess."""
    if type(outputs) is not np.ndarray or outputs.dtype != np.float32:
        outputs = np.asarray(outputs).astype(np.float32)
    if outputs.shape != (bucket, columns):
        raise OutputShapeError(
            f"the model returned shape {outputs.shape} for {bucket} rows and {columns} outputs"
        )
    block: Block = outputs
    return block


def row_status(outputs: Block) -> tuple[bytes, int]:
    """One RowStatus byte per row, and how many are not OK."""
    rows = len(outputs)
    # 0 x finite = 0, 0 x (inf or nan) = nan: one cheap call tells whether a closer look is needed.
    flat = outputs.reshape(-1)
    if rows <= _FEW and len(flat) <= len(_ZEROS) and flat.dot(_ZEROS[: len(flat)]) == 0.0:
        return _FINE[rows], 0
    bad = ~np.isfinite(outputs).all(axis=1)
    status = bad.astype(np.uint8) * np.uint8(RowStatus.NON_FINITE_OUTPUT)
    return status.tobytes(), int(bad.sum())
