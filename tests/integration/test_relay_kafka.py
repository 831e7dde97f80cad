"""Contract: what the job did not deliver, the relay delivers from Kafka, once Redis is there, and a
second relay or a restart changes no answer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.kafka_admin import admin_client
from operators.relay_loop import Relay, relay_group
from operators.relay_metrics import RelayMetrics
from tests.answers import result
from tests.integration.kafka_fixture import (
    LONG_S,
    committed,
    ends,
    own_settings,
    produce,
    wait_until,
)
from tests.integration.redis_fixture import RedisServer
from tidemill.contracts import callback_key, result_key
from tidemill.errors import Stuck
from tidemill.settings import Settings

PENDING = [("callback", b"pending")]
NO_CHANGES: dict[str, Any] = {}
NOT_STALE = {"done_ms": 4_000_000_000_000}


def record(task: str, headers: Any = PENDING, **changes: Any) -> dict[str, Any]:
    value = result(task, **NOT_STALE | changes)
    return {"key": b"k" + task.encode(), "value": value, "headers": [*headers]}


def settings_for(
    stack: Settings,
    server: RedisServer,
    changes: dict[str, Any] = NO_CHANGES,
    partitions: int = 2,
) -> Settings:
    redis = {"redis.host": "127.0.0.1", "redis.port": server.port, "redis.timeout_ms": 300}
    return own_settings(stack, redis | changes, partitions)


@contextlib.contextmanager
def relaying(settings: Settings) -> Iterator[RelayMetrics]:
    """A relay on a thread; what ends it early is raised at the end."""
    metrics, stop, ended = RelayMetrics(), threading.Event(), []

    def run() -> None:
        try:
            Relay(settings, metrics, lag_every_ms=300).run(stop.is_set)
        except BaseException as error:  # noqa: BLE001  # handed to the test
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield metrics
    finally:
        stop.set()
        thread.join()
    assert ended == []


def stored(server: RedisServer, settings: Settings, task: str) -> dict[str, Any] | None:
    raw = server.command("GET", result_key(settings.prefix, task))
    return None if raw is None else json.loads(raw)


def wait_for(server: RedisServer, settings: Settings, tasks: list[str]) -> None:
    wait_until(
        lambda: all(stored(server, settings, task) for task in tasks), f"answers of {tasks[:3]}"
    )


def test_realtime_delivers_only_what_is_pending(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    settings = settings_for(stack_settings, redis_server)
    reply = [("reply-to", b"billing"), *PENDING]
    produce(
        settings,
        settings.topics.results,
        [record("a"), record("b", []), record("c", reply), {"key": b"k", "value": b"no result"}],
    )
    with relaying(settings) as metrics:
        wait_for(redis_server, settings, ["a", "c"])
        wait_until(
            lambda: (
                committed(settings, relay_group(settings), settings.topics.results)
                == ends(settings, settings.topics.results)
            ),
            "all is committed",
        )
    assert stored(redis_server, settings, "b") is None
    entries = redis_server.command("XRANGE", callback_key(settings.prefix, "billing"), "-", "+")
    assert [fields[1] for _, fields in entries] == [b"c"]
    verdicts = {
        name: metrics.results.labels(name)._value.get()
        for name in ("deliver", "not_owed", "invalid", "stale")
    }
    # `invalid` is told only of what would be owed; this one is not
    assert verdicts == {"deliver": 2, "not_owed": 2, "invalid": 0, "stale": 0}


def test_a_stream_that_refuses_is_counted_and_costs_no_answer(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    settings = settings_for(stack_settings, redis_server)
    redis_server.command("SET", callback_key(settings.prefix, "billing"), "not a stream")
    reply = [("reply-to", b"billing"), *PENDING]
    produce(settings, settings.topics.results, [record("t", reply)])
    with relaying(settings) as metrics:
        wait_for(redis_server, settings, ["t"])
        wait_until(lambda: metrics.refused_callbacks._value.get() == 1, "it is counted")


def test_strict_delivers_what_is_committed_and_nothing_that_was_aborted(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    settings = settings_for(stack_settings, redis_server, {"job.mode": "strict"})
    config = settings.kafka.producer_config() | {"transactional.id": str(uuid.uuid4())}
    producer = Producer(config)
    producer.init_transactions(LONG_S)
    for task, commit in [("a", True), ("b", False), ("c", True)]:
        producer.begin_transaction()
        producer.produce(settings.topics.results, **record(task, []))
        producer.flush(LONG_S)
        end = producer.commit_transaction if commit else producer.abort_transaction
        end(LONG_S)
    with relaying(settings) as metrics:
        wait_for(redis_server, settings, ["a", "c"])
        # control records count as read: a lag that never reaches zero would end the relay
        wait_until(
            lambda: (
                committed(settings, relay_group(settings), settings.topics.results)
                == ends(settings, settings.topics.results)
            ),
            "the markers are committed",
        )
    assert stored(redis_server, settings, "b") is None
    assert metrics.results.labels("deliver")._value.get() == 2


def test_redis_away_holds_the_answers_and_the_place_in_the_group(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    """redis_down_kafka_ok: nothing is lost, nothing is committed, nobody is thrown out."""
    settings = settings_for(stack_settings, redis_server)
    topic = settings.topics.results
    redis_server.kill()
    tasks = [f"t-{i}" for i in range(600)]
    produce(settings, topic, [record(task) for task in tasks[:300]])
    with relaying(settings) as metrics:
        wait_until(lambda: metrics.failures._value.get() >= 3, "the relay has tried")
        produce(settings, topic, [record(task) for task in tasks[300:]])
        assert committed(settings, relay_group(settings), topic) == {}
        assert metrics.redis_up._value.get() == 0
        redis_server.start()
        wait_for(redis_server, settings, tasks)
        wait_until(
            lambda: committed(settings, relay_group(settings), topic) == ends(settings, topic),
            "all is committed",
        )
    assert metrics.results.labels("deliver")._value.get() == len(tasks)  # each was read once


def test_a_relay_that_begins_again_changes_no_answer(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    settings = settings_for(stack_settings, redis_server)
    produce(
        settings,
        settings.topics.results,
        [
            record("t", outputs={"eta": 1.0}),
            record("t", outputs={"eta": 2.0}),
            record("u", attempt=2, outputs={"eta": 2.0}),
            record("u", attempt=1, outputs={"eta": 1.0}),
        ],
    )
    for group in ("first", "second"):
        again = own_again(settings, group)
        with relaying(again) as metrics:
            wait_until(lambda: metrics.results.labels("deliver")._value.get() == 4, "all were read")
            wait_for(redis_server, settings, ["t", "u"])
    assert (stored(redis_server, settings, "t") or {})["outputs"] == {"eta": 1.0}
    assert (stored(redis_server, settings, "u") or {})["outputs"] == {"eta": 2.0}


def own_again(settings: Settings, group: str) -> Settings:
    """The same settings with another group, as if all commits were lost."""
    kafka = dataclasses.replace(settings.kafka, group=f"{settings.kafka.group}-{group}")
    return dataclasses.replace(settings, kafka=kafka)


def test_a_second_relay_takes_its_share_without_loss(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    settings = settings_for(stack_settings, redis_server, partitions=4)
    topic = settings.topics.results
    tasks = [f"t-{i}" for i in range(400)]
    with relaying(settings):
        produce(settings, topic, [record(task) for task in tasks[:200]])
        with relaying(settings) as second:
            for start in range(200, 400, 20):
                produce(settings, topic, [record(task) for task in tasks[start : start + 20]])
            wait_for(redis_server, settings, tasks)
            wait_until(lambda: second.lag._value.get() == 0, "the second one knows the lag")
        produce(settings, topic, [record("after")])
        wait_for(redis_server, settings, ["after"])
    assert committed(settings, relay_group(settings), topic) == ends(settings, topic)


def test_no_progress_although_there_is_work_ends_the_relay(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    """broker_restart_consumer_stuck: here another member sits on the only partition."""
    settings = settings_for(stack_settings, redis_server, partitions=1)
    topic = settings.topics.results
    sitter = Consumer(settings.kafka.consumer_config(relay_group(settings), reset="earliest"))
    try:
        sitter.subscribe([topic])
        wait_until(lambda: sitter.poll(0.1) is None and bool(sitter.assignment()), "it sits")
        produce(settings, topic, [record("t")])
        done = threading.Event()
        sitting = threading.Thread(target=lambda: poll_until(sitter, done))
        sitting.start()
        with pytest.raises(Stuck, match="1 offsets are waiting"):
            Relay(settings, RelayMetrics(), stuck_after_ms=300, lag_every_ms=200).run(lambda: False)
        done.set()
        sitting.join()
    finally:
        sitter.close()


def poll_until(consumer: Consumer, done: threading.Event) -> None:
    while not done.is_set():
        consumer.poll(0.1)


def test_offsets_that_retention_took_are_counted(
    stack_settings: Settings, redis_server: RedisServer
) -> None:
    """offset_out_of_range_after_retention: go on at the log's start, and say how much is missing."""
    settings = settings_for(stack_settings, redis_server, partitions=1)
    topic = settings.topics.results
    produce(settings, topic, [record(f"t-{i}") for i in range(5)])
    with relaying(settings):
        wait_for(redis_server, settings, ["t-4"])
        wait_until(
            lambda: committed(settings, relay_group(settings), topic) == {0: 5}, "5 are committed"
        )
    produce(settings, topic, [record(f"u-{i}") for i in range(5)])
    admin = admin_client(settings.kafka.client_config())
    for future in admin.delete_records([TopicPartition(topic, 0, 8)]).values():
        future.result(LONG_S)
    with relaying(settings) as metrics:
        wait_for(redis_server, settings, ["u-3", "u-4"])
    assert metrics.skipped._value.get() == 3


def test_the_command_serves_its_metrics_and_ends_well_on_sigterm(
    stack_settings: Settings, redis_server: RedisServer, tmp_path: Path, checkout: Path
) -> None:
    settings = settings_for(stack_settings, redis_server)
    port = RedisServer(tmp_path).port  # a free one
    environ = {
        "TIDEMILL_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
        "TIDEMILL_KAFKA__GROUP": settings.kafka.group,
        "TIDEMILL_TOPICS__RESULTS": settings.topics.results,
        "TIDEMILL_APP__ENV": settings.app.env,
        "TIDEMILL_REDIS__PORT": str(redis_server.port),
        "TIDEMILL_METRICS__RELAY_PORT": str(port),
        "PYTHONPATH": str(checkout),
    }
    produce(settings, settings.topics.results, [record("t")])
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "relay"],
        env=environ,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(redis_server, settings, ["t"])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
            text = reply.read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LONG_S)
    assert 'tidemill_relay_results_total{verdict="deliver"} 1.0' in text
    assert process.returncode == 0, errors
    assert committed(settings, relay_group(settings), settings.topics.results) != {}
