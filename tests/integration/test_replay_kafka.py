"""Contract: replayed events lie in the topic with their own times, keys and task ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from typer.testing import CliRunner, Result

from cli.main import app
from jobs.replay import Pace, Replayer, read_events
from tests.integration.kafka_fixture import make_topics, own_settings, read_all
from tidemill.errors import NotDelivered
from tidemill.settings import Settings, load_settings

LINES = [
    {"order_id": str(i), "event_time_ms": 1_700_000_000_000 + 1000 * i, "key": f"k{i % 3}"}
    for i in range(20)
]


@pytest.fixture
def settings(stack_settings: Settings) -> Settings:
    """A topic of this test."""
    return own_settings(stack_settings)


@pytest.fixture
def events(tmp_path: Path) -> str:
    """A file of events."""
    path = tmp_path / "events.jsonl"
    path.write_text(
        "".join(json.dumps({**line, "task_id": f"t-{n}"}) + "\n" for n, line in enumerate(LINES))
    )
    return str(path)


def replay(settings: Settings, *arguments: str) -> Result:
    """Run the command on this test's topic."""
    environ = {
        "TIDEMILL_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
        "TIDEMILL_TOPICS__ORDERS": settings.topics.orders,
    }
    result = CliRunner().invoke(app, ["replay", *arguments], env=environ)
    assert result.exit_code == 0, result.output
    return result


def by_order(messages: list[Message]) -> list[Message]:
    """In the order in which they were sent."""
    return sorted(messages, key=lambda m: int(json.loads(m.value() or b"")["order_id"]))


def test_events_keep_their_times_keys_and_tasks(settings: Settings, events: str) -> None:
    result = replay(settings, events, "--speed", "0", "--json")
    assert json.loads(result.stdout)["sent"] == 20
    messages = by_order(read_all(settings, settings.topics.orders, 20))
    assert [m.timestamp()[1] for m in messages] == [line["event_time_ms"] for line in LINES]
    assert [m.key() for m in messages] == [str(line["key"]).encode() for line in LINES]
    assert [m.headers() for m in messages] == [[("task-id", f"t-{n}".encode())] for n in range(20)]


def test_old_events_are_warned_about_unless_they_are_shifted(
    settings: Settings, events: str
) -> None:
    warned = replay(settings, events, "--rate", "1000", "--limit", "3")
    assert "retention.ms=-1" in warned.stderr
    assert "sent 3 events" in warned.stdout
    shifted = replay(settings, events, "--speed", "0", "--limit", "3", "--now")
    assert "retention.ms" not in shifted.stderr
    assert "job.future_limit_ms" in shifted.stderr


def test_a_topic_that_keeps_everything_gets_no_warning(settings: Settings, events: str) -> None:
    topic = f"{settings.topics.orders}-kept"
    make_topics(settings, [topic], 1, **{"retention.ms": "-1"})
    result = replay(settings, events, "--speed", "0", "--skip", "18", "--topic", topic)
    assert "warning" not in result.stderr
    assert len(read_all(settings, topic, 2)) == 2


def test_the_demos_flights_are_events_too(settings: Settings) -> None:
    replay(settings, "flights", "--speed", "0", "--limit", "50")
    messages = read_all(settings, settings.topics.orders, 50)
    body = json.loads(messages[0].value() or b"")
    assert {"order_id", "event_id", "event_time_ms", "key", "zone", "features"} == set(body)
    assert {m.timestamp()[1] // 86_400_000 for m in messages} == {15706}  # 2013-01-01


def test_an_unreachable_broker_is_an_error(events: str) -> None:
    nowhere = load_settings(
        None,
        {},
        {"kafka.bootstrap": "127.0.0.1:1", "kafka.client": {"message.timeout.ms": "500"}},
    )
    replayer = Replayer(Producer(nowhere.kafka.producer_config()), "orders", Pace(0.0))
    with pytest.raises(NotDelivered, match="20 of 20 events were not confirmed"):
        replayer.run(read_events(events))
