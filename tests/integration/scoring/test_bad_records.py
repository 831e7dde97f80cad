"""Bad records and bad rows, counted from outside: each is set aside with its reason, alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import models
from tests.support.deployment import Deployment
from tests.support.orders import event
from tests.support.views import Views, dlq_headers, record_of

BAD_VALUES = {
    "tombstone": None,
    "empty_value": b"",
    "malformed_json": b'{"features": {"a": 1, ',
    "bad_encoding": b'{"order_id": "\xff\xfe"}',
    "not_an_object": b"[1, 2]",
    "duplicate_key": b'{"event_id":"x","features":{"a":1,"a":2,"b":2}}',
    "missing_field": b'{"event_id":"x","features":{"a":1}}',
    "wrong_type": b'{"event_id":"x","features":{"a":"one","b":2}}',
    "out_of_range": b'{"event_id":"x","features":{"a":1,"b":2,"trap":99}}',
    "not_float32": b'{"event_id":"x","features":{"a":1e39,"b":2}}',
}


@pytest.mark.parametrize("reason", BAD_VALUES)
def test_a_bad_record_that_names_its_task_is_a_dead_letter_and_an_error(
    job: Deployment, views: Views, name: str, reason: str
) -> None:
    value = BAD_VALUES[reason]
    marked = [("task-id", name.encode()), ("source", b"\xff")]
    job.orders.send_raw(value, headers=marked, partition=1)
    answer = job.answer(name)
    assert (answer["status"], answer["tier"], answer["reason"]) == ("error", "none", reason)
    assert answer["outputs"] is None
    assert answer["message"]
    result = views.result_of(name)
    assert result.json == answer
    letter = record_of(views.dlq, value, task=name)
    assert letter.key == b"raw"
    assert letter.headers[:2] == tuple(marked)
    added = dlq_headers(letter)
    assert added["x-dlq.reason"] == reason
    assert added["x-dlq.message"] == answer["message"]
    assert added["x-dlq.topic"] == job.settings.topics.orders
    assert added["x-dlq.group"] == job.settings.kafka.group
    assert (added["x-dlq.stage"], added["x-dlq.attempts"]) == ("decode", "1")
    assert (int(added["x-dlq.partition"]), int(added["x-dlq.offset"])) == (1, answer["offset"])


def test_a_bad_record_without_a_task_is_a_dead_letter_only(
    job: Deployment, views: Views, name: str
) -> None:
    value = b"\x00\xff not json at all: " + name.encode()
    job.orders.send_raw(value, headers=[("h", None)], partition=2)
    letter = record_of(views.dlq, value)
    assert letter.headers[0] == ("h", None)
    views.settle(partition=2)
    at = (2, int(dlq_headers(letter)["x-dlq.offset"]))
    assert [r for r in views.results.records if (r.json["partition"], r.json["offset"]) == at] == []


def burst_behind_a_slow_one(
    job: Deployment, name: str, traps: dict[int, int], rows: int = 24
) -> dict[str, dict[str, Any]]:
    """Orders that wait together while the worker is busy, so that they become one batch."""
    job.orders.send(f"{name}-plug", trap=models.SLOW, partition=0)
    job.orders.flush()
    tasks = [f"{name}-{row}" for row in range(rows)]
    for row, task in enumerate(tasks):
        trap = traps.get(row, models.NO_TRAP)
        job.orders.send(task, a=float(row), trap=trap, partition=0)
    job.orders.flush()
    answers = job.answers([f"{name}-plug", *tasks])
    return {task: answers[task] for task in tasks}


def test_poison_rows_fail_alone(job: Deployment, views: Views, name: str) -> None:
    poison = {5: models.RAISES, 17: models.RAISES}
    answers = list(burst_behind_a_slow_one(job, name, poison).values())
    for row, answer in enumerate(answers):
        if row in poison:
            assert (answer["status"], answer["tier"]) == ("error", "none")
            assert answer["reason"] == "model_error"
            assert "a row of this batch is poison" in answer["message"]
        else:
            assert (answer["status"], answer["tier"]) == ("ok", "full")
            assert answer["outputs"] == models.expected(row, 2.0)
    for row in poison:
        value = event(f"{name}-{row}", a=float(row), trap=models.RAISES)
        added = dlq_headers(record_of(views.dlq, value))
        assert (added["x-dlq.stage"], added["x-dlq.reason"]) == ("score", "model_error")
        assert int(added["x-dlq.offset"]) == answers[row]["offset"]
    assert len(views.results_of(a["task"] for a in answers)) == len(answers)


def test_a_row_whose_output_is_not_a_number_fails_alone(
    job: Deployment, views: Views, name: str
) -> None:
    answers = list(burst_behind_a_slow_one(job, name, {3: models.NOT_A_NUMBER}).values())
    assert [answer["status"] for answer in answers].count("ok") == len(answers) - 1
    assert (answers[3]["status"], answers[3]["reason"]) == ("error", "non_finite_output")
    assert answers[3]["outputs"] is None
    letter = record_of(views.dlq, event(f"{name}-3", a=3.0, trap=models.NOT_A_NUMBER))
    assert dlq_headers(letter)["x-dlq.reason"] == "non_finite_output"
