"""Contract: answers are the result JSON of the contract, field for field, for the right row."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from operators.answers import ModelIdentity, Verdict, encode_answers
from tests.lane_frames import lane_frame
from tidemill.contracts import RESULT_FIELDS, Status, Tier

_MODEL = ModelIdentity("flights", "2026-1", ("delay_min",))


def test_fields_are_those_of_the_contract_in_their_order() -> None:
    frame = lane_frame(3)
    outputs = np.array([[1.5], [2.5], [-3.0]], np.float32)
    verdict = Verdict(Status.OK, Tier.FULL, queue_ms=1.25, service_ms=0.5)
    values = encode_answers(frame, range(3), verdict, outputs, _MODEL, (7, ("eta",)), 1_700)
    for row, value in enumerate(values):
        answer = orjson.loads(value)
        assert tuple(answer) == RESULT_FIELDS
        assert answer == {
            "v": 1,
            "task": f"task-{row}",
            "attempt": 1,
            "status": "ok",
            "tier": "full",
            "outputs": {"delay_min": float(outputs[row, 0])},
            "reason": None,
            "message": None,
            "model": "flights",
            "model_version": "2026-1",
            "control_version": 7,
            "frozen": ["eta"],
            "event_ms": 1_000 + row,
            "ingest_ms": 1_500,
            "done_ms": 1_700,
            "deadline_ms": 2_000 + row,
            "queue_ms": 1.25,
            "service_ms": 0.5,
            "partition": 2,
            "offset": 40 + row,
        }


def test_only_the_named_rows_are_answered_in_the_order_given() -> None:
    frame = lane_frame(4)
    outputs = np.array([[30.0], [10.0]], np.float32)
    values = encode_answers(
        frame, [3, 1], Verdict(Status.OK, Tier.RULES), outputs, _MODEL, (0, ()), 1
    )
    answers = [orjson.loads(value) for value in values]
    assert [(a["task"], a["outputs"]["delay_min"]) for a in answers] == [
        ("task-3", 30.0),
        ("task-1", 10.0),
    ]


def test_text_from_outside_is_escaped_and_percent_signs_survive() -> None:
    message = 'feature "share" is 120 %, its range is 0..100 %d\n'
    verdict = Verdict(Status.ERROR, Tier.NONE, "out_of_range", message)
    model = ModelIdentity("100%", '"v"', ("y",))
    (value,) = encode_answers(lane_frame(1), [0], verdict, None, model, (0, ()), 1)
    answer = orjson.loads(value)
    assert answer["message"] == message
    assert (answer["model"], answer["model_version"]) == ("100%", '"v"')
    assert answer["outputs"] is None


def test_several_outputs_keep_their_names() -> None:
    model = ModelIdentity("m", "1", ("low", "mid", "high"))
    outputs = np.arange(6, dtype=np.float32).reshape(2, 3)
    values = encode_answers(
        lane_frame(2), range(2), Verdict(Status.OK, Tier.FULL), outputs, model, (0, ()), 1
    )
    assert [orjson.loads(value)["outputs"] for value in values] == [
        {"low": 0.0, "mid": 1.0, "high": 2.0},
        {"low": 3.0, "mid": 4.0, "high": 5.0},
    ]


@pytest.mark.parametrize("shape", [(2, 1), (4, 1), (3, 2), (3, 0)])
def test_outputs_of_another_shape_are_loud(shape: tuple[int, int]) -> None:
    verdict = Verdict(Status.OK, Tier.FULL)
    outputs = np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match="shape"):
        encode_answers(lane_frame(3), range(3), verdict, outputs, _MODEL, (0, ()), 1)
