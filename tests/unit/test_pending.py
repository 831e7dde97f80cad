"""Contract: a frame leaves whole, once all its rows are answered, with what it came with."""

from __future__ import annotations

import pytest

from operators.answers import ModelIdentity
from operators.feature_log import decode_features
from operators.frames import decode_headers, decode_out
from operators.pending import (
    ROUTE_DEAD_LETTERS,
    ROUTE_FEATURES,
    ROUTE_RESULTS,
    Finisher,
    PendingFrame,
)
from operators.records import LaneFrame
from tests.lane_frames import lane_frame

_FINISHER = Finisher(ModelIdentity("m", "v9", ("y",)), "orders", "group", "schema-1", 2, 1_000_000)


def _pending(frame: LaneFrame) -> PendingFrame:
    return PendingFrame("lane", 5, 1, frame, 3, ("eta",))


def _route(frame: bytes) -> int:
    return int.from_bytes(frame[12:16], "little")


def test_results_keep_key_headers_and_event_time() -> None:
    pending = _pending(lane_frame(3))
    pending.answer([0, 2], [b"answer-0", b"answer-2"], delivered=True)
    pending.answer([1], [b"answer-1"], delivered=False)
    finished = _FINISHER.finish(pending)
    assert (finished.lane, finished.id) == ("lane", 5)
    results, features = finished.out
    assert (_route(results), _route(features)) == (ROUTE_RESULTS, ROUTE_FEATURES)
    rows = decode_out(results)
    assert [(row.key, row.value, row.ts) for row in rows] == [
        (b"key-0", b"answer-0", 1_000),
        (b"key-1", b"answer-1", 1_001),
        (None, b"answer-2", 1_002),
    ]
    headers = [decode_headers(row.headers) for row in rows]
    common = [("model-version", b"v9"), ("control-version", b"3")]
    assert headers[0] == [("source", b"s0"), *common]
    assert headers[1] == [("source", b"s1"), *common, ("callback", b"pending")]


def test_features_are_those_of_the_scored_rows() -> None:
    pending = _pending(lane_frame(3, decided={1: ("late", "late", "behind the watermark")}))
    pending.answer(range(3), [b"a", b"b", b"c"], delivered=True)
    _, features = _FINISHER.finish(pending).out
    (message,) = decode_out(features)
    rows = decode_features(message.value or b"")
    assert rows.tasks == ["task-0", "task-2"]
    assert rows.raw.tolist() == [[0.0, 0.5], [2.0, 2.5]]
    assert rows.served.tolist() == rows.raw.tolist()
    assert (rows.partition, rows.control_version, rows.schema_id) == (2, 3, "schema-1")
    assert rows.event_ms.tolist() == [1_000, 1_002]


def test_a_frame_of_decided_rows_only_logs_no_features() -> None:
    pending = _pending(lane_frame(1, decided={0: ("late", "late", "")}))
    pending.answer([0], [b"a"], delivered=True)
    assert [_route(frame) for frame in _FINISHER.finish(pending).out] == [ROUTE_RESULTS]


def test_a_row_that_the_model_can_not_score_is_a_dead_letter_with_its_bytes() -> None:
    pending = _pending(lane_frame(2))
    pending.answer([0, 1], [b"error", b"ok"], delivered=True)
    pending.dead.append((0, "model_error", "division by zero"))
    _, dead, _ = _FINISHER.finish(pending).out
    assert _route(dead) == ROUTE_DEAD_LETTERS
    (letter,) = decode_out(dead)
    headers = dict(decode_headers(letter.headers))
    assert (letter.key, letter.value) == (b"key-0", b'{"row":0}')
    assert headers["source"] == b"s0"
    assert headers["x-dlq.reason"] == b"model_error"
    assert headers["x-dlq.offset"] == b"40"
    assert headers["x-dlq.stage"] == b"score"


def test_a_second_answer_for_a_row_is_loud() -> None:
    pending = _pending(lane_frame(2))
    pending.answer([0], [b"a"], delivered=True)
    with pytest.raises(RuntimeError, match="answered twice"):
        pending.answer([0], [b"b"], delivered=True)


def test_a_frame_with_an_unanswered_row_does_not_leave() -> None:
    pending = _pending(lane_frame(2))
    pending.answer([0], [b"a"], delivered=True)
    with pytest.raises(RuntimeError, match="unanswered"):
        _FINISHER.finish(pending)
