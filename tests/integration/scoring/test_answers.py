"""Good orders, counted from outside: each is answered once, with every field, to its caller."""

from __future__ import annotations

import time

import numpy as np
import pytest

from operators.feature_log import FeatureRows, decode_features
from tests.integration.scoring.limits import SLA_MS
from tests.support import models
from tests.support.deployment import Deployment
from tests.support.kafka_view import Seen
from tests.support.model_folder import NAME
from tests.support.views import Views
from tidemill.contracts import (
    CALLBACK_FIELDS,
    RESULT_FIELDS,
    callback_key,
    result_key,
    task_id_for,
)


def test_an_order_is_answered_with_every_field(job: Deployment, views: Views, name: str) -> None:
    before_ms = int(time.time() * 1000)
    event_ms = job.orders.now_ms() - 500
    sent = [("traceparent", b"00-1-2-01"), ("empty", b""), ("none", None), ("task-id", b"old")]
    job.orders.send(
        None, b'{"features":{"a":5,"b":0.25},"event_id":"e"}', key=b"\x00k",
        headers=[*sent, ("task-id", name.encode())], ts_ms=event_ms, partition=2,
    )  # fmt: skip
    answer = job.answer(name)
    record = views.result_of(name)

    assert record.json == answer
    assert tuple(answer) == RESULT_FIELDS
    varying = {
        field: answer.pop(field)
        for field in ("ingest_ms", "done_ms", "deadline_ms", "queue_ms", "service_ms", "offset")
    }
    assert answer == {
        "v": 1, "task": name, "attempt": 1, "status": "ok", "tier": "full",
        "outputs": {"total": 5.5, "difference": 4.75}, "reason": None, "message": None,
        "model": NAME, "model_version": "7", "control_version": 0, "frozen": [],
        "event_ms": event_ms, "partition": 2,
    }  # fmt: skip
    assert before_ms <= varying["ingest_ms"] <= varying["done_ms"] <= time.time() * 1000
    assert varying["deadline_ms"] == varying["ingest_ms"] + SLA_MS
    assert 0 <= varying["queue_ms"] <= varying["done_ms"] - varying["ingest_ms"] + 1
    assert 0 < varying["service_ms"] < SLA_MS
    assert record.key == b"\x00k"
    assert record.ts_ms == event_ms
    assert list(record.headers) == [
        *sent, ("task-id", name.encode()), ("model-version", b"7"), ("control-version", b"0"),
    ]  # fmt: skip
    ttl_s = job.redis.ttl(result_key(job.settings.prefix, name))
    assert 0 < ttl_s <= job.settings.redis.ttl_s


def test_a_burst_over_all_partitions_is_answered_once_each(
    job: Deployment, views: Views, name: str
) -> None:
    tasks = {f"{name}-{number}": float(number) for number in range(600)}
    for task, a in tasks.items():
        job.orders.send(task, a=a, b=-a)
    job.orders.flush()
    answers = job.answers(tasks)
    assert {task: answer["outputs"] for task, answer in answers.items()} == {
        task: models.expected(a, -a) for task, a in tasks.items()
    }
    records = views.results_of(tasks)
    assert len(records) == len(tasks)
    assert {record.task: record.json for record in records} == answers


def test_features_are_logged_as_they_were_served(job: Deployment, views: Views, name: str) -> None:
    sent = {f"{name}-{number}": (number / 3, -number) for number in range(50)}
    for task, (a, b) in sent.items():
        job.orders.send(task, a=a, b=b, partition=1)
    job.orders.flush()
    job.answers(sent)
    logged: dict[str, tuple[FeatureRows, int, Seen]] = {}

    def complete(_: list[Seen]) -> bool:
        for record in views.features.records:
            rows = decode_features(record.value or b"")
            logged.update({task: (rows, at, record) for at, task in enumerate(rows.tasks)})
        return set(sent) <= set(logged)

    views.features.until(complete, "feature log of all tasks")
    for task, (a, b) in sent.items():
        rows, at, record = logged[task]
        assert rows.raw[at].tolist() == np.array([a, b, 0], np.float32).tolist()
        assert (rows.served[at] == rows.raw[at]).all()
        assert (rows.partition, record.key) == (1, b"1")
        answer = job.answer(task)
        assert rows.event_ms[at] == answer["event_ms"]
        assert rows.control_version == answer["control_version"]


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff\xfe\x00", b"k" * 1000], ids=["null", "empty", "binary", "long"]
)
def test_any_key_is_kept(job: Deployment, views: Views, name: str, key: bytes | None) -> None:
    job.orders.send(None, f'{{"event_id":"{name}","features":{{"a":1,"b":2}}}}'.encode(), key=key)
    task = task_id_for(None, job.settings.topics.orders, key, name)
    assert job.answer(task)["status"] == "ok"
    record = views.result_of(task)
    assert record.key == key


def test_a_task_sent_twice_is_scored_once(job: Deployment, views: Views, name: str) -> None:
    job.orders.send(name, a=1.0, partition=3)
    first = job.answer(name)
    for _ in range(3):
        job.orders.send(name, a=9.0, partition=3)
    views.settle(partition=3)
    assert job.answer(name) == first
    assert views.result_of(name).json == first


def test_a_newer_attempt_wins_and_an_older_one_never_does(
    job: Deployment, views: Views, name: str
) -> None:
    for attempt, a in ((2, 20.0), (3, 30.0), (1, 10.0)):
        job.orders.send(name, a=a, b=0.0, headers=[("attempt", b"%d" % attempt)], partition=0)
        job.orders.flush()
        views.settle(partition=0)
    answer = job.answer(name)
    assert (answer["attempt"], answer["outputs"]["total"]) == (3, 30.0)
    # what the caller reads stays what the topic says last
    assert [r.json["attempt"] for r in views.results_of([name])] == [2, 3, 3]


def test_a_caller_gets_its_answer_in_its_stream(job: Deployment, views: Views, name: str) -> None:
    for task in (f"{name}-1", f"{name}-2"):
        job.orders.send(task, headers=[("reply-to", b"billing")], partition=1)
    job.orders.flush()
    answers = job.answers([f"{name}-1", f"{name}-2"])
    stream = callback_key(job.settings.prefix, "billing")
    entries = [fields for _, fields in job.redis.xrange(stream)]
    assert [set(fields) for fields in entries] == [{f.encode() for f in CALLBACK_FIELDS}] * 2
    assert [fields[b"task"].decode() for fields in entries] == list(answers)
    assert [fields[b"status"] for fields in entries] == [b"ok", b"ok"]
    assert entries[0][b"result"] == job.redis.get(result_key(job.settings.prefix, f"{name}-1"))
