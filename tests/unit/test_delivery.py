"""Contract: an answer goes to Redis at once while it is there; while it is away none is tried, and
each is marked for the relay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from operators.answers import ModelIdentity, Verdict
from operators.delivery import AnswerGroup, Deliverer
from operators.pending import PendingFrame
from operators.redis_script import DeliveryRow
from operators.scoring_stats import ScoringStats
from tests.lane_frames import lane_frame
from tidemill.contracts import Status, Tier
from tidemill.errors import RedisAway

MODEL = ModelIdentity("tester", "7", ("eta",))


class Writer:
    """Redis in memory; ``away`` is what it does to its callers."""

    def __init__(self) -> None:
        self.away = False
        self.calls = 0
        self.values: dict[str, bytes] = {}

    def connect(self) -> None:
        """Raises RedisAway while it is away."""
        if self.away:
            raise RedisAway("Redis is away", retry_ms=40)

    def write(self, rows: Sequence[DeliveryRow]) -> list[bytes | None]:
        """First write wins."""
        self.calls += 1
        self.connect()
        kept = [self.values.get(task) for task, *_ in rows]
        for task, _, _, _, value in rows:
            self.values.setdefault(task, value)
        return kept


def pending(prefix: str = "task", rows: int = 3) -> PendingFrame:
    return PendingFrame("lane", 1, 1, lane_frame(rows, prefix=prefix), 0, ())


def group(frame: PendingFrame, rows: Sequence[int]) -> AnswerGroup:
    outputs = np.array(rows, np.float32).reshape(-1, 1)
    return AnswerGroup(frame, rows, Verdict(Status.OK, Tier.FULL), outputs)


def deliverer(writer: Writer | None) -> Deliverer:
    return Deliverer(MODEL, writer, ScoringStats(), lambda: 1_600.0)


def test_a_frame_is_finished_when_its_last_row_is_delivered() -> None:
    writer = Writer()
    frame = pending()
    sender = deliverer(writer)
    assert sender.deliver([group(frame, [0, 2])]) == []
    assert sender.deliver([group(frame, [1])]) == [frame]
    assert [writer.values[f"task-{row}"] for row in range(3)] == frame.answers
    assert frame.unsent == set()


def test_an_answer_that_redis_has_already_is_the_one_that_leaves() -> None:
    writer = Writer()
    writer.values["task-1"] = b"older"
    frame = pending()
    deliverer(writer).deliver([group(frame, range(3))])
    assert frame.answers[1] == b"older"
    assert frame.answers[0] == writer.values["task-0"]


def test_while_redis_is_away_nothing_waits_for_it() -> None:
    writer = Writer()
    sender = deliverer(writer)
    writer.away = True
    first, second = pending("a"), pending("b")
    sender.deliver([group(first, range(3))])
    assert sender.away.is_set()
    sender.deliver([group(second, range(3))])
    assert writer.calls == 1  # the second frame did not try
    assert first.unsent == second.unsent == {0, 1, 2}
    assert sender.reconnect() == 40
    assert sender.away.is_set()


def test_once_redis_is_back_it_is_written_again() -> None:
    writer = Writer()
    sender = deliverer(writer)
    writer.away = True
    sender.deliver([group(pending("a"), range(3))])
    writer.away = False
    assert sender.reconnect() == 0
    assert not sender.away.is_set()
    frame = pending("b")
    sender.deliver([group(frame, range(3))])
    assert frame.unsent == set()
    assert set(writer.values) == {"b-0", "b-1", "b-2"}


def test_without_a_writer_the_relay_delivers_and_nothing_is_owed() -> None:
    frame = pending()
    sender = deliverer(None)
    assert sender.deliver([group(frame, range(3))]) == [frame]
    assert frame.unsent == set()
    assert sender.reconnect() == 0
