"""Contract: the commands show what lies in the topics, and a replayed dead letter is the original
record as a newer attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from tests.answers import result
from tests.integration.kafka_fixture import own_settings, produce, read_all
from tidemill.settings import Settings

OWN = [("traceparent", b"00-a"), ("task-id", b"t-1"), ("deadline-ms", b"5"), ("x", b"\xff")]


def letter(reason: str, offset: int, source: str, ts_ms: int = 1_000) -> dict[str, Any]:
    about = {
        "topic": source,
        "partition": "0",
        "offset": str(offset),
        "timestamp": str(ts_ms),
        "group": "g",
        "stage": "decode",
        "reason": reason,
        "message": f"why {offset}",
        "attempts": "1",
    }
    headers = [*OWN, *((f"x-dlq.{name}", text.encode()) for name, text in about.items())]
    return {"key": b"k\xff", "value": b'{"broken"', "headers": headers, "timestamp": 9_000 + offset}


def run(settings: Settings, *arguments: str) -> Result:
    environ = {
        "TIDEMILL_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
        "TIDEMILL_TOPICS__ORDERS": settings.topics.orders,
        "TIDEMILL_TOPICS__RESULTS": settings.topics.results,
        "TIDEMILL_TOPICS__LATE": settings.topics.late,
        "TIDEMILL_TOPICS__DLQ": settings.topics.dlq,
    }
    return CliRunner().invoke(app, [*arguments], env=environ)


def lines(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def settings(stack_settings: Settings) -> Settings:
    settings = own_settings(stack_settings, partitions=1)
    source = settings.topics.orders
    produce(
        settings,
        settings.topics.dlq,
        [
            letter("malformed_json", 1, source),
            letter("wrong_type", 2, source),
            letter("malformed_json", 3, source),
            {"key": b"k", "value": b"no letter of ours"},
        ],
    )
    late = [("x-late.lateness-ms", b"20000"), ("x-late.topic", source.encode()), ("x", b"y")]
    produce(settings, settings.topics.late, [{"key": b"k", "value": b"{}", "headers": late}])
    answers = [{"value": result(f"t-{i}", outputs={"eta": float(i)})} for i in range(5)]
    produce(settings, settings.topics.results, answers)
    return settings


def test_results(settings: Settings) -> None:
    found = lines(run(settings, "results", "--json", "--limit", "3"))
    assert [(answer["task"], answer["in_sla"]) for answer in found] == [
        ("t-2", True),
        ("t-3", True),
        ("t-4", True),
    ]
    assert "t-4" in run(settings, "results").stdout


def test_late(settings: Settings) -> None:
    (record,) = lines(run(settings, "late", "--json"))
    assert (record["lateness-ms"], record["place"], record["headers"]) == (
        "20000",
        "0:0",
        {"x": "y"},
    )
    assert "20000 ms late" in run(settings, "late").stdout


def test_dlq_list_and_show(settings: Settings) -> None:
    found = lines(run(settings, "dlq", "list", "--json"))
    assert [entry["place"] for entry in sorted(found, key=lambda e: e["place"])] == [
        "0:0",
        "0:1",
        "0:2",
        "0:3",
    ]
    assert "why 2" in run(settings, "dlq", "list", "--reason", "wrong_type").stdout
    (shown,) = lines(run(settings, "dlq", "show", "0:0", "--json"))
    assert shown["key"] == "k\\xff"
    assert (shown["reason"], shown["stage"], shown["value"]) == (
        "malformed_json",
        "decode",
        '{"broken"',
    )


@pytest.mark.parametrize("place", ["0:99", "7:0", "first", "0:-1"])
def test_a_place_without_a_letter_is_told(settings: Settings, place: str) -> None:
    done = run(settings, "dlq", "show", "--", place)
    assert done.exit_code == 2
    assert place in done.stderr


def test_replay(settings: Settings) -> None:
    dry = run(settings, "dlq", "replay", "0:0", "--dry-run", "--json")
    assert lines(dry) == [{"replayed": 0, "ready": 1, "refused": [], "probably_late": 1}]
    done = run(settings, "dlq", "replay", "--reason", "malformed_json", "--json")
    assert lines(done)[0]["replayed"] == 2
    first, second = read_all(settings, settings.topics.orders, 2)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"k\xff", b'{"broken"', 1_000)
    # the deadline has passed, and would only make the answer `expired`
    kept = [OWN[0], OWN[1], OWN[3], ("attempt", b"2")]
    assert first.headers() == second.headers() == kept


def test_what_can_not_be_replayed_is_told_and_the_rest_is_sent(stack_settings: Settings) -> None:
    settings = own_settings(stack_settings, partitions=1)
    foreign = {"key": b"k", "value": b"no letter of ours"}
    produce(
        settings, settings.topics.dlq, [foreign, letter("wrong_type", 1, settings.topics.orders)]
    )
    done = run(settings, "dlq", "replay", "--all", "--now")
    assert done.exit_code == 1
    assert "replayed 1 dead letters" in done.stdout
    assert "refused 0:0" in done.stderr
    (again,) = read_all(settings, settings.topics.orders, 1)
    assert again.timestamp()[1] > 1_000_000_000_000


def test_replay_wants_to_know_what(settings: Settings) -> None:
    done = run(settings, "dlq", "replay")
    assert done.exit_code == 2
    assert "name the letters to replay" in done.stderr
