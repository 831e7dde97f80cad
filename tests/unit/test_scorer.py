"""Contract: what becomes of rows as the worker answers, fails, hangs or is gone; no threads needed."""

from __future__ import annotations

import numpy as np
import pytest

from models.messages import Drain, Fail, Hello, Message, Score
from models.wire import Decoder, WireError, encode_reply
from operators.answers import Verdict
from operators.batch_state import BatchPolicy
from operators.pending import PendingFrame
from operators.records import LaneFrame
from operators.rules import RuleEngine
from operators.scorer import Scorer
from operators.scoring_stats import ScoringStats
from tests.lane_frames import lane_frame
from tests.unit.rule_data import rules_for

_SCHEMA = "schema-1"


class Port:
    """A worker's end in memory: keeps what it was sent, and can be away."""

    def __init__(self) -> None:
        self.sent: list[Score] = []
        self.dropped: list[str] = []
        self.away = False

    def send(self, frame: bytes) -> None:
        if self.away:
            raise BrokenPipeError("gone")
        for message in Decoder().feed(frame):
            assert isinstance(message, Score)
            self.sent.append(message)

    def accepted(self) -> None:
        """Nothing to do."""

    def drop(self, why: str) -> None:
        self.dropped.append(why)


def _hello(schema_id: str = _SCHEMA) -> Hello:
    return Hello(
        "m", "1", ["a", "b"], ["y"], [1, 8, 64], {1: 500, 8: 900, 64: 2000}, 64, 2, schema_id
    )


def _scorer(*, rules: RuleEngine | None = None, connected: bool = True) -> tuple[Scorer, Port]:
    port = Port()
    policy = BatchPolicy(max_rows=64, stall_floor_ms=50, fallback=rules is not None)
    scorer = Scorer(policy, 2, _SCHEMA, rules, port, ScoringStats())
    if connected:
        scorer.on_message(_hello(), 1_500)
    return scorer, port


def _enter(
    scorer: Scorer, frame: LaneFrame, number: int = 1, now_ms: float = 1_500
) -> PendingFrame:
    pending = PendingFrame("lane", number, number, frame, 0, ())
    scorer.enter(pending, now_ms)
    return pending


def _reply(score: Score, status: bytes | None = None) -> Message:
    outputs = np.arange(score.rows, dtype=np.float32) + 100
    frame = encode_reply(
        score.batch_id, status or bytes(score.rows), outputs.tobytes(), bytes(score.row_ids), 1,
        service_us=900, queue_us=100, bucket=8,
    )  # fmt: skip
    (message,) = Decoder().feed(frame)
    return message


def _answers(scorer: Scorer) -> dict[str, tuple[Verdict, float | None]]:
    found: dict[str, tuple[Verdict, float | None]] = {}
    for group in scorer.take_groups():
        for place, row in enumerate(group.rows):
            value = None if group.outputs is None else float(group.outputs[place, 0])
            found[group.pending.frame.tasks[row]] = (group.verdict, value)
    return found


def test_rows_of_several_frames_go_in_one_batch_and_each_gets_its_own_score() -> None:
    scorer, port = _scorer()
    _enter(scorer, lane_frame(1, prefix="first"), 1)
    _enter(scorer, lane_frame(2, prefix="second"), 2)
    _enter(scorer, lane_frame(2, prefix="third"), 3)
    (first,) = port.sent
    scorer.on_message(_reply(first), 1_502)
    second = port.sent[1]
    assert (first.rows, second.rows) == (1, 4)
    assert np.frombuffer(second.block, np.float32).reshape(-1, 2).tolist() == [
        [0.0, 0.5], [1.0, 1.5], [0.0, 0.5], [1.0, 1.5],
    ]  # fmt: skip
    scorer.on_message(_reply(second), 1_504)
    answers = _answers(scorer)
    assert {task: value for task, (_, value) in answers.items()} == {
        "first-0": 100, "second-0": 100, "second-1": 101, "third-0": 102, "third-1": 103,
    }  # fmt: skip
    assert {verdict.status for verdict, _ in answers.values()} == {"ok"}
    assert answers["third-0"][0].queue_ms == pytest.approx(2.1)


def test_a_row_without_a_finite_score_is_an_error_alone() -> None:
    scorer, port = _scorer()
    _enter(scorer, lane_frame(3))
    scorer.on_message(_reply(port.sent[0], status=b"\0\1\0"), 1_501)
    groups = scorer.take_groups()
    assert [(list(g.rows), g.verdict.status, g.dead_letter) for g in groups] == [
        ([1], "error", True),
        ([0, 2], "ok", False),
    ]
    assert groups[1].outputs is not None
    assert groups[1].outputs[:, 0].tolist() == [100, 102]


def test_a_batch_that_raises_is_halved_until_the_bad_row_stands_alone() -> None:
    scorer, port = _scorer()
    _enter(scorer, lane_frame(4, deadline_ms=60_000))
    bad = 2.0
    turn = 0
    while turn < len(port.sent):
        score = port.sent[turn]
        turn += 1
        if bad in np.frombuffer(score.block, np.float32).reshape(-1, 2)[:, 0]:
            scorer.on_message(Fail(score.batch_id, score.rows, "model_error", "boom"), 1_501)
        else:
            scorer.on_message(_reply(score), 1_501)
    answers = _answers(scorer)
    assert {task: verdict.status for task, (verdict, _) in answers.items()} == {
        "task-0": "ok", "task-1": "ok", "task-2": "error", "task-3": "ok",
    }  # fmt: skip
    assert answers["task-2"][0].message == "boom"


def test_decided_rows_are_answered_at_once_and_never_sent() -> None:
    scorer, port = _scorer()
    _enter(scorer, lane_frame(3, decided={1: ("late", "late", "behind")}))
    assert _answers(scorer)["task-1"][0].status == "late"
    assert port.sent[0].rows == 2


def test_without_a_worker_the_rules_answer() -> None:
    scorer, port = _scorer(rules=rules_for(7.0), connected=False)
    _enter(scorer, lane_frame(2))
    assert {(v.tier, v.reason, value) for v, value in _answers(scorer).values()} == {
        ("rules", "worker_down", 7.0)
    }
    assert port.sent == []


def test_a_worker_that_goes_away_costs_no_answer() -> None:
    scorer, port = _scorer(rules=rules_for(7.0))
    _enter(scorer, lane_frame(2))
    assert _answers(scorer) == {}
    scorer.worker_lost("end of file", 1_501)
    assert {verdict.tier for verdict, _ in _answers(scorer).values()} == {"rules"}
    scorer.on_message(_reply(port.sent[0]), 1_502)
    assert _answers(scorer) == {}, "a reply that comes after all changes nothing"


def test_a_worker_that_takes_nothing_is_dropped() -> None:
    scorer, port = _scorer(rules=rules_for(7.0))
    port.away = True
    _enter(scorer, lane_frame(2))
    assert port.dropped == ["gone"]
    assert len(_answers(scorer)) == 2


def test_a_worker_without_progress_is_dropped() -> None:
    scorer, port = _scorer(rules=rules_for(7.0))
    _enter(scorer, lane_frame(2, deadline_ms=60_000))
    wake_ms = scorer.wake_at(1_500)
    assert wake_ms == pytest.approx(1_550)
    scorer.tick(1_550)
    assert port.dropped == ["worker stalled"]
    assert {verdict.tier for verdict, _ in _answers(scorer).values()} == {"rules"}


def test_a_draining_worker_answers_what_it_has_and_gets_no_more() -> None:
    scorer, port = _scorer(rules=rules_for(7.0))
    _enter(scorer, lane_frame(1, prefix="before"), 1)
    scorer.on_message(Drain(), 1_501)
    _enter(scorer, lane_frame(1, prefix="after"), 2)
    scorer.on_message(_reply(port.sent[0]), 1_502)
    tiers = {task: verdict.tier for task, (verdict, _) in _answers(scorer).items()}
    assert tiers == {"before-0": "full", "after-0": "rules"}
    assert len(port.sent) == 1


@pytest.mark.parametrize(
    "message", [_hello("another-schema"), Score(1, 1, 8, 0, *[memoryview(b"")] * 2)]
)
def test_a_worker_of_another_model_or_protocol_is_refused(message: Message) -> None:
    scorer, _ = _scorer(connected=False)
    with pytest.raises(WireError):
        scorer.on_message(message, 1_500)


def test_a_reply_with_another_number_of_rows_is_refused() -> None:
    scorer, port = _scorer()
    _enter(scorer, lane_frame(2))
    wrong = Score(port.sent[0].batch_id, 1, 8, 0, memoryview(bytes(8)), memoryview(bytes(4)))
    with pytest.raises(WireError, match="1 rows"):
        scorer.on_message(_reply(wrong), 1_501)


def test_an_answer_names_the_version_that_scored_it() -> None:
    scorer, port = _scorer()
    pending = _enter(scorer, lane_frame(1))
    scorer.on_message(_reply(port.sent[0]), 1_501)
    (group,) = scorer.take_groups()
    assert (group.verdict.model_version, pending.model_version) == ("1", "1")
