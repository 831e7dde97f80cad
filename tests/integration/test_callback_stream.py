"""Contract: what docs/contracts.md tells the readers of a caller's stream to do loses no answer,
whichever reader dies, and an entry that was trimmed is told from one that is owed."""

from __future__ import annotations

from typing import Any

import pytest

from operators.redis_writer import RedisWriter
from tests.answers import result
from tests.integration.redis_fixture import RedisServer

PREFIX = "tidemill:test"
STREAM = f"{PREFIX}:cb:billing"


@pytest.fixture
def stream(redis_server: RedisServer) -> RedisServer:
    deliver(redis_server, ["a", "b", "c"])
    redis_server.command("XGROUP", "CREATE", STREAM, "billing", "0")
    return redis_server


def deliver(server: RedisServer, tasks: list[str]) -> None:
    writer = RedisWriter(server.settings(), PREFIX)
    writer.write([(task, 1, "ok", "billing", result(task)) for task in tasks])
    writer.close()


def read(server: RedisServer, consumer: str, start: str = ">") -> list[Any]:
    reply = server.command(
        "XREADGROUP", "GROUP", "billing", consumer, "COUNT", "10", "STREAMS", STREAM, start
    )
    return list(reply[0][1]) if reply else []


def tasks(entries: list[Any]) -> list[str]:
    return [fields[1].decode() for _, fields in entries]


def test_a_reader_that_dies_before_use_loses_nothing(stream: RedisServer) -> None:
    """blpop_lost_on_client_crash: reading does not take away, acknowledging does."""
    (first, *_) = read(stream, "reader-1")
    stream.command("XACK", STREAM, "billing", first[0])
    taken = stream.command("XAUTOCLAIM", STREAM, "billing", "reader-2", "0", "0")
    assert tasks(taken[1]) == ["b", "c"]


def test_what_a_reader_left_is_claimed_before_it_is_deleted(stream: RedisServer) -> None:
    """stream_consumer_deleted_with_pending"""
    read(stream, "reader-1")
    stream.command("XAUTOCLAIM", STREAM, "billing", "reader-2", "0", "0")
    assert stream.command("XGROUP", "DELCONSUMER", STREAM, "billing", "reader-1") == 0
    assert tasks(read(stream, "reader-2", "0")) == ["a", "b", "c"]


def test_a_trimmed_entry_comes_without_fields_and_its_answer_is_under_its_key(
    stream: RedisServer,
) -> None:
    """stream_trim_unread"""
    read(stream, "reader-1")
    stream.command("XTRIM", STREAM, "MAXLEN", "1")
    pending = read(stream, "reader-1", "0")
    assert [fields is None for _, fields in pending] == [True, True, False]
    lost = [entry for entry, fields in pending if fields is None]
    assert stream.command("XACK", STREAM, "billing", *lost) == 2
    assert tasks(read(stream, "reader-1", "0")) == ["c"]
    assert stream.command("GET", f"{PREFIX}:res:{{a}}") == result("a")


def test_a_reader_that_comes_later_gets_what_came_before(stream: RedisServer) -> None:
    assert tasks(read(stream, "reader-1")) == ["a", "b", "c"]
    deliver(stream, ["d"])
    assert tasks(read(stream, "reader-1")) == ["d"]


def test_nothing_relies_on_keyspace_events(stream: RedisServer) -> None:
    """keyspace_notifications_cluster: they are off, and the tests of the client pass all the same"""
    assert stream.command("CONFIG", "GET", "notify-keyspace-events") == [
        b"notify-keyspace-events",
        b"",
    ]
