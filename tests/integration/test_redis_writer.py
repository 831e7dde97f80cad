"""Contract: on a real Redis, an answer is written once and for good, wakes its waiter, has a TTL,
and any fault of Redis becomes RedisAway within the time-out, never a wrong reply."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.redis_script import MAX_CALL_ROWS, DeliveryRow
from operators.redis_writer import RedisWriter
from tests.integration.redis_fixture import RedisServer
from tidemill.backoff import BackOff
from tidemill.errors import RedisAway

PREFIX = "tidemill:test"


def value(task: str, attempt: int = 1, mark: str = "") -> bytes:
    return json.dumps(
        {"v": 1, "task": task, "attempt": attempt, "mark": mark}, separators=(",", ":")
    ).encode()


def row(
    task: str, attempt: int = 1, mark: str = "", reply_to: str | None = None, status: str = "ok"
) -> DeliveryRow:
    return task, attempt, status, reply_to, value(task, attempt, mark)


def stored(server: RedisServer, task: str) -> bytes | None:
    found: bytes | None = server.command("GET", f"{PREFIX}:res:{{{task}}}")
    return found


def impatient() -> BackOff:
    return BackOff(first_ms=1, longest_ms=1)


@pytest.fixture
def writer(redis_server: RedisServer) -> Iterator[RedisWriter]:
    writer = RedisWriter(redis_server.settings(), PREFIX, impatient())
    yield writer
    writer.close()


def until_written(writer: RedisWriter, rows: list[DeliveryRow]) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            writer.write(rows)
        except RedisAway:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("Redis did not take the rows again")


def test_rows_are_written_and_read_back(redis_server: RedisServer, writer: RedisWriter) -> None:
    rows = [row(f"t-{i}") for i in range(3)]
    assert writer.write(rows) == [None, None, None]
    assert [stored(redis_server, r[0]) for r in rows] == [r[4] for r in rows]


def test_equal_attempt_the_first_write_stays_and_is_returned(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    first, second = row("t", mark="first"), row("t", mark="second")
    writer.write([first])
    assert writer.write([second, row("u")]) == [first[4], None]
    assert stored(redis_server, "t") == first[4]


def test_a_newer_attempt_replaces_and_an_older_one_never_does(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    writer.write([row("t", 2)])
    assert writer.write([row("t", 10)]) == [None]
    assert writer.write([row("t", 9)]) == [value("t", 10)]
    assert stored(redis_server, "t") == value("t", 10)


def test_the_same_task_twice_in_one_call(redis_server: RedisServer, writer: RedisWriter) -> None:
    rows = [row("t", 1, "a"), row("t", 1, "b"), row("t", 2, "c"), row("t", 1, "d")]
    assert writer.write(rows) == [None, value("t", 1, "a"), None, value("t", 2, "c")]
    assert stored(redis_server, "t") == value("t", 2, "c")


def test_more_rows_than_one_call_takes(redis_server: RedisServer, writer: RedisWriter) -> None:
    rows = [row(f"t-{i}") for i in range(2 * MAX_CALL_ROWS + 1)]
    assert writer.write(rows) == [None] * len(rows)
    assert writer.write(rows) == [r[4] for r in rows]
    assert redis_server.command("DBSIZE") == len(rows)


def test_a_foreign_value_of_any_type_gives_way(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    redis_server.commands(
        [
            ("SET", f"{PREFIX}:res:{{text}}", "no result"),
            ("LPUSH", f"{PREFIX}:res:{{list}}", "x"),
        ]
    )
    assert writer.write([row("text"), row("list"), row("after")]) == [None, None, None]
    assert stored(redis_server, "list") == value("list")


def test_only_what_was_written_wakes(redis_server: RedisServer, writer: RedisWriter) -> None:
    with redis_server.listening(f"{PREFIX}:res:{{t}}") as heard:
        writer.write([row("t", status="late")])
        writer.write([row("t", mark="again")])
        writer.write([row("t", 2, status="error")])
        assert [next(heard), next(heard)] == [b"late", b"error"]


def test_reply_to_gets_one_stream_entry_an_answer(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    writer.write([row("t", reply_to="billing"), row("u", reply_to="billing"), row("w")])
    writer.write([row("t", reply_to="billing", mark="replayed")])
    entries = redis_server.command("XRANGE", f"{PREFIX}:cb:billing", "-", "+")
    assert [fields for _, fields in entries] == [
        [b"task", task.encode(), b"status", b"ok", b"result", value(task)] for task in ("t", "u")
    ]


def test_a_stream_is_capped(redis_server: RedisServer) -> None:
    writer = RedisWriter(redis_server.settings(stream_max_len=100), PREFIX)
    for start in range(0, 2000, 200):
        writer.write([row(f"t-{start + i}", reply_to="billing") for i in range(200)])
    writer.close()
    # `~` lets Redis drop whole nodes of 100 entries only
    assert 100 <= redis_server.command("XLEN", f"{PREFIX}:cb:billing") < 300


def test_a_stream_that_refuses_costs_no_answer(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    redis_server.command("SET", f"{PREFIX}:cb:billing", "not a stream")
    assert writer.write([row("t", reply_to="billing"), row("u")]) == [None, None]
    assert writer.refused_callbacks == 1
    assert stored(redis_server, "t") == value("t")


def test_every_key_has_a_ttl(redis_server: RedisServer) -> None:
    writer = RedisWriter(redis_server.settings(ttl_s=60), PREFIX)
    rows = [row(f"t-{i}", reply_to=f"caller-{i % 2}") for i in range(10)]
    writer.write(rows)
    writer.write([row(f"t-{i}", 2, reply_to="caller-0") for i in range(5)])
    writer.close()
    keys = redis_server.command("KEYS", "*")
    ttls = redis_server.commands([("TTL", key) for key in keys])
    assert len(keys) == 12
    assert [ttl for ttl in ttls if not 0 < ttl <= 60] == []


def test_the_script_is_loaded_again_after_a_flush(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    writer.write([row("t")])
    redis_server.command("SCRIPT", "FLUSH")
    rows = [row(f"u-{i}") for i in range(MAX_CALL_ROWS + 1)]
    assert writer.write(rows) == [None] * len(rows)


def test_a_killed_server_is_noticed_and_reached_again_after_its_restart(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    writer.write([row("t")])
    redis_server.kill()
    with pytest.raises(RedisAway, match=f"Redis at 127.0.0.1:{redis_server.port} is away"):
        writer.write([row("u")])
    redis_server.start()
    until_written(writer, [row("u")])
    assert stored(redis_server, "u") == value("u")


def test_a_hung_server_costs_the_timeout_and_its_late_reply_answers_nothing(
    redis_server: RedisServer,
) -> None:
    writer = RedisWriter(redis_server.settings(timeout_ms=200), PREFIX, impatient())
    writer.write([row("t", mark="first")])
    redis_server.hang()
    for task in ("u", "w"):  # the second one needs a new connection, which the kernel accepts
        with pytest.raises(RedisAway, match=r"redis\.timeout_ms = 200"):
            writer.write([row(task, mark="hung")])
    redis_server.go_on()
    # were the replies of the hung writes read now, these would seem to be written
    until_written(writer, [row("x")])
    assert writer.write([row("t", mark="second"), row("x", mark="second")]) == [
        value("t", mark="first"),
        value("x"),
    ]
    writer.close()


def test_loading_is_told_and_passes(tmp_path: Path) -> None:
    server = RedisServer(
        tmp_path,
        *("--key-load-delay", "3000"),  # microseconds a key
        *("--loading-process-events-interval-bytes", "1024"),
    )
    server.start()
    server.commands([*(("SET", f"k{i}", "x" * 100) for i in range(300)), ("SAVE",)])
    server.kill()
    server.start(wait=False)
    writer = RedisWriter(server.settings(), PREFIX, impatient())
    try:
        seen = refusals_until_written(writer)
        assert any("refused: LOADING" in text and "will serve soon" in text for text in seen)
        assert stored(server, "t") == value("t")
    finally:
        writer.close()
        server.close()


def refusals_until_written(writer: RedisWriter) -> list[str]:
    seen = []
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            writer.write([row("t")])
        except RedisAway as error:
            seen.append(str(error))
            time.sleep(0.02)
        else:
            return seen
    raise AssertionError(f"never written: {seen[-1]}")


def test_a_demoted_primary_is_left_and_the_name_resolved_again(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    writer.write([row("t")])
    redis_server.command("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(RedisAway, match=r"READONLY.*must name the primary"):
        writer.write([row("u")])
    redis_server.command("REPLICAOF", "NO", "ONE")
    until_written(writer, [row("u")])
    links = redis_server.command("CLIENT", "LIST").decode().splitlines()
    assert len([link for link in links if "cmd=evalsha" in link]) == 1  # the old one is gone


def test_full_memory_is_a_refusal_with_its_remedy(
    redis_server: RedisServer, writer: RedisWriter
) -> None:
    redis_server.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(RedisAway, match=r"OOM.*raise maxmemory"):
        writer.write([row("t")])
    redis_server.command("CONFIG", "SET", "maxmemory", "0")
    until_written(writer, [row("t")])


def test_connect_says_at_once_whether_redis_is_there(redis_server: RedisServer) -> None:
    writer = RedisWriter(redis_server.settings(), PREFIX)
    writer.connect()
    writer.close()
    redis_server.kill()
    with pytest.raises(RedisAway):
        writer.connect()


def test_after_a_failure_there_is_a_pause(redis_server: RedisServer) -> None:
    writer = RedisWriter(
        redis_server.settings(), PREFIX, BackOff(first_ms=10_000, longest_ms=10_000)
    )
    now_ms = int(time.time() * 1000)
    assert writer.ready(now_ms)
    redis_server.kill()
    with pytest.raises(RedisAway) as caught:
        writer.write([row("t")])
    assert 5_000 <= caught.value.retry_ms <= 10_000
    assert not writer.ready(now_ms + 4_000)
    assert writer.ready(now_ms + 20_000)


def test_another_database(redis_server: RedisServer) -> None:
    writer = RedisWriter(redis_server.settings(db=3), PREFIX)
    writer.write([row("t")])
    writer.close()
    assert stored(redis_server, "t") is None
    found = redis_server.commands([("SELECT", 3), ("GET", f"{PREFIX}:res:{{t}}")])
    assert found[1] == value("t")
