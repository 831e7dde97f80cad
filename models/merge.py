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


def fill(buffer: Block, blocks: Sequence[memoryview], rows: int, bucket: int) -> Block:
    """Copy the blocks into the first rows of `buffer`, zero the padding, return the bucket's view."""
    flat = buffer.reshape(-1)
    at = 0
    for block in blocks:
        values = np.frombuffer(block, np.float32)
        flat[at : at + len(values)] = values
        at += len(values)
    if rows < bucket:
        buffer[rows:bucket] = 0.0
    return buffer[:bucket]


def checked(outputs: Any, bucket: int, columns: int) -> Block:
    """The model's answer as float32 [bucket, columns]. Raises OutputShapeError: never guess."""
    block = np.asarray(outputs)
    if block.shape != (bucket, columns):
        raise OutputShapeError(
            f"the model returned shape {block.shape} for {bucket} rows and {columns} outputs"
        )
    return np.ascontiguousarray(block, np.float32)


_FINE = tuple(bytes(n) for n in range(513))


def row_status(outputs: Block) -> tuple[bytes, int]:
    """One RowStatus byte per row, and how many are not OK."""
    rows = len(outputs)
    # A float64 sum of float32 values can't overflow: it is finite iff every value is.
    if np.isfinite(outputs.sum(dtype=np.float64)):
        return (_FINE[rows] if rows < len(_FINE) else bytes(rows)), 0
    bad = ~np.isfinite(outputs).all(axis=1)
    status = bad.astype(np.uint8) * np.uint8(RowStatus.NON_FINITE_OUTPUT)
    return status.tobytes(), int(bad.sum())
