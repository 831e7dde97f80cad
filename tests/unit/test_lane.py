"""Contract: a lane admits a task once, and never gives the id of a live state entry again."""

from __future__ import annotations

from operators.dedup import DedupPolicy, DedupWindow
from operators.lane import Lane
from operators.pending import FinishedFrame
from tests.lane_frames import lane_frame


def _lane() -> Lane:
    return Lane("key", DedupWindow(DedupPolicy()))


def test_only_new_rows_of_a_frame_are_admitted() -> None:
    lane = _lane()
    first = lane_frame(3)
    assert lane.admit(first, 0)[0] is first
    again, _, chunk = lane.admit(lane_frame(5), 1)
    assert again is not None
    assert again.tasks == ["task-3", "task-4"]
    assert again.block == lane_frame(5).block[3 * 8 :]
    assert chunk
    assert lane.duplicates == 3


def test_a_frame_of_duplicates_only_is_not_admitted() -> None:
    lane = _lane()
    lane.admit(lane_frame(3), 0)
    frame, _, chunk = lane.admit(lane_frame(3), 1)
    assert frame is None
    assert chunk == b""


def test_a_newer_attempt_is_no_duplicate() -> None:
    lane = _lane()
    lane.admit(lane_frame(1), 0)
    retry = lane_frame(1)
    retry.attempts = [2]
    assert lane.admit(retry, 1)[0] is retry


def test_without_a_window_everything_is_admitted() -> None:
    lane = Lane("key", None)
    frame = lane_frame(2)
    assert lane.admit(frame, 0) == (frame, 0, b"")
    assert lane.admit(frame, 0) == (frame, 0, b"")


def test_ids_go_on_after_a_restart() -> None:
    lane = _lane()
    assert lane.restore([7, 3]) == [3, 7]
    assert lane.take_id() == 8
    lane.ready.append(FinishedFrame("key", 3, ()))
    assert [frame.id for frame in lane.take_ready()] == [3]
    assert lane.ids == {7, 8}
    assert lane.take_ready() == []
