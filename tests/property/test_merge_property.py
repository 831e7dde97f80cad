"""Invariant: every frame leaves the queue once, whole, in order, in a batch within its limit."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from models.merge import take_batch


class _Frame(NamedTuple):
    serial: int
    rows: int


@given(st.lists(st.integers(1, 16), max_size=40), st.integers(16, 64))
def test_frames_leave_once_and_in_order(sizes: list[int], max_rows: int) -> None:
    frames = [_Frame(*pair) for pair in enumerate(sizes)]
    queue, batches = deque(frames), []
    while queue:
        batches.append(take_batch(queue, max_rows))
    assert [frame for batch in batches for frame in batch] == frames
    for batch, later in pairwise(batches):
        rows = sum(frame.rows for frame in batch)
        assert 0 < rows <= max_rows
        assert rows + later[0].rows > max_rows  # nothing that fitted was left behind
