"""Contract: frames share a batch whole and in order; padding is never answered; bad rows are marked."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import pytest

from models.merge import Buffer, OutputShapeError, bucket_for, checked, row_status, take_batch


class _Frame(NamedTuple):
    rows: int


def test_a_batch_takes_the_oldest_frames_that_fit() -> None:
    queue = deque(map(_Frame, (3, 4, 2, 1)))
    assert take_batch(queue, 8) == [_Frame(3), _Frame(4)]
    assert take_batch(queue, 8) == [_Frame(2), _Frame(1)]
    assert take_batch(queue, 8) == []


@pytest.mark.parametrize(("rows", "bucket"), [(1, 1), (2, 8), (8, 8), (9, 16), (16, 16)])
def test_the_smallest_bucket_that_holds_them(rows: int, bucket: int) -> None:
    assert bucket_for(rows, (1, 8, 16)) == bucket


def test_more_rows_than_the_largest_bucket_are_an_error() -> None:
    with pytest.raises(ValueError, match="17 rows are over the largest bucket, 16"):
        bucket_for(17, (1, 8, 16))


def _rows(*values: float) -> memoryview:
    return memoryview(np.array(values, np.float32).tobytes())


def test_the_block_holds_the_frames_then_zeros() -> None:
    buffer = Buffer(4, 2)
    buffer.fill([_rows(*range(1, 9))], 4)
    block = buffer.fill([_rows(1, 2), _rows(3, 4, 5, 6)], 4)
    assert block.tolist() == [[1, 2], [3, 4], [5, 6], [0, 0]]
    assert buffer.fill([_rows(9, 9)], 1).tolist() == [[9, 9]]


@pytest.mark.parametrize("rows", [1, 3, 300, 600, 40_000])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_only_rows_that_are_not_finite_are_marked(rows: int, bad: float) -> None:
    outputs = np.full((rows, 2), 3e38, np.float32)
    assert row_status(outputs) == (bytes(rows), 0)
    outputs[rows // 2, 1] = bad
    status, count = row_status(outputs)
    assert count == 1
    assert [i for i, byte in enumerate(status) if byte] == [rows // 2]
    assert status[rows // 2] == 1


@pytest.mark.parametrize("shape", [(3,), (3, 1), (2, 2), (3, 2, 1), ()])
def test_another_shape_than_asked_for_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(OutputShapeError, match="for 3 rows and 2 outputs"):
        checked(np.zeros(shape, np.float32), 3, 2)


@pytest.mark.parametrize("outputs", [np.ones((3, 2)), np.ones((3, 2), int), [[1, 1]] * 3])
def test_other_numbers_become_float32(outputs: object) -> None:
    block = checked(outputs, 3, 2)
    assert block.dtype == np.float32
    assert block.tolist() == [[1, 1]] * 3
