"""Contract: what a client sends is one confirmed record that the job and Java understand, and each
way of not arriving has its own error."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from cli.main import app
from operators.redis_writer import RedisWriter
from tests.answers import result
from tests.integration.kafka_fixture import LONG_S, make_topics, own_settings, produce, read_all
from tidemill.aio import AsyncTidemill
from tidemill.answer import Answer
from tidemill.client import Tidemill
from tidemill.contracts import Status
from tidemill.errors import DeadlineExceeded, InvalidEvent, NotDelivered, Unavailable
from tidemill.settings import KafkaSettings, Settings

EVENT = {"order_id": "o-1", "event_id": "e-1", "features": {"km": 2.5}}


@pytest.fixture(scope="module")
def settings(stack_settings: Settings) -> Settings:
    return own_settings(stack_settings, partitions=4)


@pytest.fixture
def client(settings: Settings) -> Iterator[Tidemill]:
    with Tidemill(settings) as client:
        yield client


class Scorer:
    """Answers every order at once, as a job would."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Scorer:
        self._thread.start()
        assert self._ready.wait(LONG_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        settings = self._settings
        writer = RedisWriter(settings.redis, settings.prefix)
        consumer = Consumer(settings.kafka.consumer_config("scorer", reset="earliest"))
        consumer.subscribe([settings.topics.orders], on_assign=lambda *_: self._ready.set())
        while not self._stop.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                headers: dict[str, Any] = dict(message.headers() or [])
                task = headers["task-id"].decode()
                writer.write([(task, 1, "ok", None, result(task))])
        consumer.close()
        writer.close()


def test_a_record_as_the_contract_says(stack_settings: Settings) -> None:
    settings = own_settings(stack_settings)
    with Tidemill(settings) as client:
        ticket = client.submit(
            EVENT, deadline_ms=2_000, event_time_ms=1_000, headers={"reply-to": "billing"}
        )
    (message,) = read_all(settings, settings.topics.orders, 1)
    assert message.key() == b"o-1"
    assert message.value() == b'{"order_id":"o-1","event_id":"e-1","features":{"km":2.5}}'
    assert message.timestamp()[1] == 1_000
    assert message.headers() == [
        ("task-id", ticket.task_id.encode()),
        ("deadline-ms", b"2000"),
        ("reply-to", b"billing"),
    ]
    assert (ticket.deadline_ms, ticket.attempt) == (2_000, 1)


def test_predict_sends_and_waits(settings: Settings, client: Tidemill) -> None:
    with Scorer(settings):
        answer = client.predict(EVENT, timeout_s=LONG_S)
        assert (answer.status, answer.value) == (Status.OK, 12.5)
        by_features = client.predict(features={"km": 1.0}, key="o-2", timeout_s=LONG_S)
        assert by_features.task != answer.task
        ticket = client.submit(EVENT | {"event_id": "e-2"})
        assert client.wait(ticket).task == ticket.task_id


def test_the_predict_command_shows_the_answer_and_where_its_time_went(settings: Settings) -> None:
    environ = {
        "TIDEMILL_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
        "TIDEMILL_TOPICS__ORDERS": settings.topics.orders,
        "TIDEMILL_REDIS__PORT": str(settings.redis.port),
        "TIDEMILL_APP__ENV": settings.app.env,
    }
    with Scorer(settings):
        event = json.dumps(EVENT | {"event_id": "command"})
        arguments = ["predict", event, "--timeout", str(LONG_S)]
        shown = CliRunner().invoke(app, arguments, env=environ)
        as_json = CliRunner().invoke(app, [*arguments, "--json"], env=environ)
    assert shown.exit_code == 0, shown.output
    assert "service, in the model" in shown.stdout
    assert json.loads(as_json.stdout)["stages_ms"]["service"] == 2.5


def test_many_predictions_at_once(settings: Settings) -> None:
    async def run() -> list[Answer]:
        async with AsyncTidemill(settings) as client:
            events = [EVENT | {"event_id": f"many-{i}"} for i in range(200)]
            return await asyncio.gather(*(client.predict(e, timeout_s=LONG_S) for e in events))

    with Scorer(settings):
        answers = asyncio.run(run())
    assert len({answer.task for answer in answers}) == 200


def test_nobody_answers(client: Tidemill) -> None:
    with pytest.raises(DeadlineExceeded):
        client.predict(EVENT | {"event_id": "silent"}, timeout_s=2)


def murmur2(key: bytes) -> int:
    """Kafka's own hash (org.apache.kafka.common.utils.Utils), written anew."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if tail := key[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


def test_keys_land_where_java_puts_them(stack_settings: Settings) -> None:
    """partitioner_mismatch: librdkafka's own partitioner agrees on a quarter of the keys only."""
    settings = own_settings(stack_settings, partitions=4)
    keys = [f"rider-{i}" for i in range(40)]
    with Tidemill(settings) as client:
        for key in keys:
            client.submit(EVENT, key=key)
    for message in read_all(settings, settings.topics.orders, len(keys)):
        hashed = murmur2(message.key() or b"")
        assert message.partition() == (hashed & 0x7FFFFFFF) % 4


def test_a_record_that_the_broker_finds_too_large(stack_settings: Settings) -> None:
    """oversized_record_on_produce: the client's own limit is not the topic's."""
    settings = own_settings(stack_settings)
    small = dataclasses.replace(settings.topics, orders=f"{settings.topics.orders}-small")
    settings = dataclasses.replace(settings, topics=small)
    make_topics(settings, [small.orders], 1, **{"max.message.bytes": "1000"})
    with Tidemill(settings) as client:
        with pytest.raises(InvalidEvent, match=r"max\.message\.bytes"):
            client.submit(EVENT | {"x": "y" * 2000})
        with pytest.raises(InvalidEvent, match=r"max\.message\.bytes"):
            client.predict(EVENT | {"x": "y" * 2000}, timeout_s=LONG_S)
        client.submit(EVENT)
    assert len(read_all(settings, small.orders, 1)) == 1


def test_a_broker_that_is_away(settings: Settings) -> None:
    kafka = KafkaSettings(bootstrap="127.0.0.1:1", client={"delivery.timeout.ms": "500"})
    with Tidemill(dataclasses.replace(settings, kafka=kafka)) as client:
        with pytest.raises(NotDelivered, match=r"127\.0\.0\.1:1 did not confirm") as caught:
            client.submit(EVENT)
        assert caught.value.task_id
        with pytest.raises(NotDelivered, match="not confirmed task"):
            client.predict(EVENT | {"event_id": "unsent"}, timeout_s=0.2)


def test_a_full_queue_is_told(settings: Settings) -> None:
    kafka = KafkaSettings(
        bootstrap="127.0.0.1:1",
        client={"queue.buffering.max.messages": "1", "delivery.timeout.ms": "2000"},
    )

    async def run() -> list[Any]:
        async with AsyncTidemill(dataclasses.replace(settings, kafka=kafka)) as client:
            sends = (client.submit(EVENT) for _ in range(3))
            return await asyncio.gather(*sends, return_exceptions=True)

    kinds = [type(outcome) for outcome in asyncio.run(run())]
    assert kinds == [NotDelivered, Unavailable, Unavailable]


def answers(settings: Settings, tasks: list[str]) -> None:
    produce(settings, settings.topics.results, [{"value": result(task)} for task in tasks])


def test_results_to_the_end(stack_settings: Settings) -> None:
    settings = own_settings(stack_settings)
    answers(settings, ["a", "b", "c"])
    with Tidemill(settings) as client:
        found = list(client.results(follow=False, start="earliest"))
        assert {answer.task for answer in found} == {"a", "b", "c"}
        assert list(client.results(follow=False)) == []


def test_results_from_now_on(stack_settings: Settings) -> None:
    settings = own_settings(stack_settings)
    answers(settings, ["before"])
    with Tidemill(settings) as client:
        following = client.results()
        answers(settings, ["a", "b"])
        assert {next(following).task, next(following).task} == {"a", "b"}
        following.close()


def test_a_group_goes_on_where_it_stopped(stack_settings: Settings) -> None:
    settings = own_settings(stack_settings, partitions=1)
    answers(settings, ["a", "b"])

    async def take(count: int) -> list[str]:
        taken = []
        async with AsyncTidemill(settings) as client:
            following = client.results(group="billing", start="earliest")
            async for answer in following:
                taken.append(answer.task)
                if len(taken) == count:
                    break
            await following.aclose()
        return taken

    assert asyncio.run(take(2)) == ["a", "b"]
    answers(settings, ["c"])
    # what was handed out last was not committed: at least once
    assert asyncio.run(take(3)) == ["a", "b", "c"]


def test_results_of_a_missing_topic(settings: Settings) -> None:
    topics = dataclasses.replace(settings.topics, results="no-such-topic")
    with (
        Tidemill(dataclasses.replace(settings, topics=topics)) as client,
        pytest.raises(Unavailable, match="no-such-topic"),
    ):
        client.results()


def test_closing_delivers_what_is_queued(stack_settings: Settings) -> None:
    settings = own_settings(stack_settings)

    async def run() -> None:
        async with AsyncTidemill(settings) as client:
            sends = [asyncio.ensure_future(client.submit(EVENT)) for _ in range(50)]
            await asyncio.sleep(0)
            for send in sends:
                send.cancel()

    asyncio.run(run())
    assert len(read_all(settings, settings.topics.orders, 50)) == 50


def test_an_event_time_of_long_ago_is_kept(settings: Settings, client: Tidemill) -> None:
    before = int(time.time() * 1000) - 400 * 86_400_000
    client.submit(EVENT | {"event_id": "old"}, event_time_ms=before)
    times = {m.timestamp()[1] for m in _all(settings)}
    assert before in times


def _all(settings: Settings) -> list[Any]:
    from tests.integration.kafka_fixture import ends

    count = sum(ends(settings, settings.topics.orders).values())
    return read_all(settings, settings.topics.orders, count)
