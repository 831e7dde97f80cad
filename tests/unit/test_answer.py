"""Contract: an answer is read from the result JSON of the contract, and nothing else passes for one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.answers import BASE, result
from tidemill.answer import Answer
from tidemill.contracts import Status, Tier
from tidemill.errors import ContractError


def test_every_field_arrives() -> None:
    answer = Answer.from_json(result("t-1", frozen=["rain"], reason="worker_slow", message="m"))
    shown = answer.as_dict()
    assert shown.pop("in_sla") is True
    assert shown == BASE | {
        "task": "t-1",
        "frozen": ["rain"],
        "reason": "worker_slow",
        "message": "m",
    }
    assert list(shown) == list(BASE)
    assert (answer.status, answer.tier, answer.frozen) == (Status.OK, Tier.FULL, ("rain",))
    assert answer.total_ms == 10


@pytest.mark.parametrize(
    ("changes", "in_sla"),
    [
        ({"done_ms": 2_200}, True),
        ({"done_ms": 2_201}, False),
        ({"status": "late"}, False),
        ({"status": "error"}, False),
        ({"status": "expired"}, False),
        ({"status": "rejected"}, False),
    ],
)
def test_in_sla_is_ok_and_before_the_deadline(changes: dict[str, Any], in_sla: bool) -> None:
    assert Answer.from_json(result("t", **changes)).in_sla is in_sla


def test_value_is_the_first_output() -> None:
    assert Answer.from_json(result("t", outputs={"b": 2.0, "a": 1.0})).value == 2.0
    assert Answer.from_json(result("t", outputs=None, status="late")).value is None


def test_fields_of_later_programs_are_ignored() -> None:
    assert Answer.from_json(result("t", colour="blue")).task == "t"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "version None"),
        (b"{}", "version None"),
        (result("t", v=2), "version 2, this program knows 1"),
        (result("t", status="maybe"), "maybe"),
        (result("t", tier="gold"), "gold"),
        (result("t", frozen=None), "task 't'"),
        (orjson.dumps({"v": 1, "task": "t"}), "has no 'attempt'"),
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        Answer.from_json(raw)
