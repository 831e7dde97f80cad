"""Contract: an event that can't be scored is refused before it is sent, with what to change."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tidemill.contracts import task_id_for
from tidemill.errors import InvalidEvent
from tidemill.events import Record, build_record, event_from_features, value_at
from tidemill.settings import (
    EventSettings,
    FeaturePointer,
    JobSettings,
    KafkaSettings,
    Settings,
)

SETTINGS = Settings()
EVENT = {"order_id": "o-1", "event_id": "e-1", "features": {"km": 2.5}}


def build(event: Any = None, settings: Settings = SETTINGS, **changes: Any) -> Record:
    arguments: dict[str, Any] = {
        "key": None,
        "task_id": None,
        "deadline_ms": None,
        "timestamp_ms": 1_000,
    }
    return build_record(settings, EVENT if event is None else event, **arguments | changes)


def test_a_plain_event() -> None:
    record = build()
    assert record.topic == "orders.order.created.v1"
    assert record.key == b"o-1"
    assert record.value == b'{"order_id":"o-1","event_id":"e-1","features":{"km":2.5}}'
    assert record.task_id == task_id_for(None, record.topic, b"o-1", "e-1")
    assert record.headers == [("task-id", record.task_id.encode())]
    assert (record.timestamp_ms, record.attempt) == (1_000, 1)


def test_the_same_event_is_the_same_task_and_another_event_another() -> None:
    assert build().task_id == build().task_id
    assert build().task_id != build(EVENT | {"event_id": "e-2"}).task_id


def test_what_is_given_wins() -> None:
    record = build(key="k", task_id="mine", deadline_ms=5, headers={"attempt": "2", "x": b"\xff"})
    assert (record.key, record.task_id, record.attempt) == (b"k", "mine", 2)
    assert record.headers == [
        ("task-id", b"mine"),
        ("deadline-ms", b"5"),
        ("attempt", b"2"),
        ("x", b"\xff"),
    ]


def test_bytes_are_sent_as_they_are_and_need_a_task_id() -> None:
    assert build(b"\xff\xfe", task_id="t").value == b"\xff\xfe"
    with pytest.raises(InvalidEvent, match="no text or number at /event_id: add it, or give"):
        build(b"{}")


def test_numbers_may_be_ids_and_truth_may_not() -> None:
    assert build(EVENT | {"order_id": 7}).key == b"7"
    with pytest.raises(InvalidEvent, match="/event_id"):
        build(EVENT | {"event_id": True})


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, {1, 2}, b"x", "\ud800", object()], ids=repr
)
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidEvent, match="not JSON"):
        build(EVENT | {"x": value})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task_id": "a b"}, "task id 'a b'"),
        ({"headers": {"reply-to": "a b"}}, "reply-to 'a b'"),
        ({"headers": {"task-id": "t"}}, "set by its own argument"),
        ({"headers": {"deadline-ms": "1"}}, "set by its own argument"),
        ({"headers": {"attempt": "two"}}, "attempt = b'two'"),
        ({"headers": {"attempt": "-1"}}, "attempt"),
    ],
)
def test_bad_arguments_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidEvent, match=words):
        build(**changes)


def test_too_large_for_the_job() -> None:
    settings = Settings(job=JobSettings(max_value_bytes=100))
    with pytest.raises(InvalidEvent, match=r"job\.max_value_bytes is 100"):
        build(EVENT | {"x": "y" * 100}, settings)


def test_too_large_for_kafka_whatever_the_limit_of_the_client() -> None:
    with pytest.raises(InvalidEvent, match=r"message\.max\.bytes is 1000000"):
        build(EVENT | {"x": "y" * 1_000_000})
    settings = Settings(kafka=KafkaSettings(client={"message.max.bytes": "2000"}))
    with pytest.raises(InvalidEvent, match=r"message\.max\.bytes is 2000"):
        build(EVENT, settings, headers={"x": "y" * 2000})


def test_features_lie_where_the_job_looks_for_them() -> None:
    event = EventSettings(
        id="/order/id",
        event_id="/meta/id",
        features={"km": FeaturePointer("/trip/m", 0.001), "kind": FeaturePointer("/trip/kind")},
    )
    made = event_from_features(
        Settings(event=event), {"km": 2.5, "kind": "car", "a/b": 1}, "o-1", "e-1"
    )
    assert made == {
        "order": {"id": "o-1"},
        "meta": {"id": "e-1"},
        "trip": {"m": 2500.0, "kind": "car"},
        "features": {"a/b": 1},
    }
    assert value_at(made, "/features/a~1b") == 1


def test_pointers_that_clash_are_told() -> None:
    event = EventSettings(id="/a", event_id="/a/b")
    with pytest.raises(InvalidEvent, match="clash"):
        event_from_features(Settings(event=event), {}, "o", "e")


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", {"a": [{"b": 1}]}),
        ("/a/0/b", 1),
        ("/a/1", None),
        ("/a/-1", None),
        ("/a/x", None),
        ("/c", None),
        ("/a/0/b/c", None),
    ],
)
def test_value_at(pointer: str, found: Any) -> None:
    assert value_at({"a": [{"b": 1}]}, pointer) == found
