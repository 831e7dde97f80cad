"""Contract: whatever happens to Redis while a caller waits, it gets its answer, or a typed error
at its deadline; sync and asyncio clients alike, over one connection."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from operators.redis_writer import RedisWriter
from tests.answers import result
from tests.integration.redis_fixture import RedisServer
from tidemill.aio import AsyncTidemill, Ticket
from tidemill.answer import Answer
from tidemill.client import Tidemill
from tidemill.contracts import Status
from tidemill.errors import ContractError, DeadlineExceeded, InvalidEvent, Unavailable
from tidemill.settings import AppSettings, Settings

APP = AppSettings(name="tidemill", env="test")
PREFIX = "tidemill:test"
LONG_S = 20.0


def settings_of(server: RedisServer, **redis: Any) -> Settings:
    return Settings(app=APP, redis=server.settings(**redis))


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Tidemill]:
    with Tidemill(settings_of(redis_server)) as client:
        yield client


def answer(server: RedisServer, task: str, **changes: Any) -> None:
    writer = RedisWriter(server.settings(), PREFIX)
    value = result(task, **changes)
    writer.write([(task, changes.get("attempt", 1), changes.get("status", "ok"), None, value)])
    writer.close()


def when_waited_for(
    server: RedisServer, tasks: int, action: Callable[[], None]
) -> threading.Thread:
    """Run ``action`` once so many tasks are subscribed to."""

    def run() -> None:
        wait_until(lambda: len(server.command("PUBSUB", "CHANNELS", f"{PREFIX}:*")) >= tasks)
        action()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)


def test_an_answer_that_is_there(redis_server: RedisServer, client: Tidemill) -> None:
    answer(redis_server, "t")
    found = client.wait("t", LONG_S)
    assert (found.task, found.status, found.value, found.in_sla) == ("t", Status.OK, 12.5, True)


def test_an_answer_that_comes(redis_server: RedisServer, client: Tidemill) -> None:
    thread = when_waited_for(redis_server, 1, lambda: answer(redis_server, "t", status="late"))
    assert client.wait("t", LONG_S).status is Status.LATE
    thread.join()


def test_waiters_share_one_connection(redis_server: RedisServer, client: Tidemill) -> None:
    tasks = [f"t-{i % 20}" for i in range(40)]
    links: list[str] = []

    def answer_all() -> None:
        listed = redis_server.command("CLIENT", "LIST").decode().splitlines()
        links.extend(line for line in listed if "resp=3" in line)
        for task in set(tasks):
            answer(redis_server, task)

    with ThreadPoolExecutor(40) as pool:
        thread = when_waited_for(redis_server, 20, answer_all)
        found = list(pool.map(lambda task: client.wait(task, LONG_S), tasks))
    thread.join()
    assert [a.task for a in found] == tasks
    assert len(links) == 1
    wait_until(lambda: redis_server.command("PUBSUB", "CHANNELS") == [])


def test_the_asyncio_client_waits_for_many(redis_server: RedisServer) -> None:
    async def run() -> list[Answer]:
        async with AsyncTidemill(settings_of(redis_server)) as client:
            return await asyncio.gather(*(client.wait(f"t-{i}", LONG_S) for i in range(300)))

    def answer_all() -> None:
        writer = RedisWriter(redis_server.settings(), PREFIX)
        writer.write([(f"t-{i}", 1, "ok", None, result(f"t-{i}")) for i in range(300)])
        writer.close()

    thread = when_waited_for(redis_server, 300, answer_all)
    assert [a.task for a in asyncio.run(run())] == [f"t-{i}" for i in range(300)]
    thread.join()


def test_no_answer_is_a_deadline_error_that_names_the_task(client: Tidemill) -> None:
    with pytest.raises(DeadlineExceeded, match=r"task t within 0\.050 s") as caught:
        client.wait("t", 0.05)
    assert caught.value.task_id == "t"
    with pytest.raises(TimeoutError):
        client.wait("t", 0)


def test_the_wait_ends_at_the_tickets_deadline(client: Tidemill) -> None:
    passed = Ticket("t", int(time.time() * 1000) - 1000)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.000 s"):
        client.wait(passed)


def test_an_answer_of_an_older_attempt_is_not_taken(
    redis_server: RedisServer, client: Tidemill
) -> None:
    answer(redis_server, "t")
    thread = when_waited_for(redis_server, 1, lambda: answer(redis_server, "t", attempt=2))
    assert client.wait(Ticket("t", None, attempt=2), LONG_S).attempt == 2
    thread.join()


def test_a_message_missed_while_the_subscriber_was_away_is_made_up_for(
    redis_server: RedisServer, client: Tidemill
) -> None:
    def cut_and_answer() -> None:
        # in one go: the key is written before the client can be back
        redis_server.commands(
            [
                ("CLIENT", "KILL", "TYPE", "pubsub"),
                ("SET", f"{PREFIX}:res:{{t}}", result("t"), "EX", 60),
                ("PUBLISH", f"{PREFIX}:res:{{t}}", "ok"),
            ]
        )

    thread = when_waited_for(redis_server, 1, cut_and_answer)
    assert client.wait("t", LONG_S).task == "t"
    thread.join()


def test_a_restart_of_redis_in_the_middle_of_a_wait(
    redis_server: RedisServer, client: Tidemill
) -> None:
    def restart_and_answer() -> None:
        redis_server.kill()
        redis_server.start()
        answer(redis_server, "t")

    thread = when_waited_for(redis_server, 1, restart_and_answer)
    assert client.wait("t", LONG_S).task == "t"
    thread.join()


def test_a_hang_in_the_middle_of_a_wait(redis_server: RedisServer) -> None:
    with Tidemill(settings_of(redis_server, timeout_ms=100)) as client:

        def hang_and_answer() -> None:
            redis_server.hang()
            time.sleep(0.5)
            redis_server.go_on()
            answer(redis_server, "t")

        thread = when_waited_for(redis_server, 1, hang_and_answer)
        assert client.wait("t", LONG_S).task == "t"
        thread.join()


def test_a_hung_server_is_told_from_a_missing_answer(redis_server: RedisServer) -> None:
    with Tidemill(settings_of(redis_server, timeout_ms=100)) as client:
        with pytest.raises(DeadlineExceeded):
            client.wait("t", 0.05)
        redis_server.hang()
        with pytest.raises(Unavailable, match=r"Redis at 127\.0\.0\.1"):
            client.wait("t", 0.05)
        redis_server.go_on()
        answer(redis_server, "t")
        assert client.wait("t", LONG_S).task == "t"


def test_redis_away_is_unavailable_at_the_deadline(
    redis_server: RedisServer, client: Tidemill
) -> None:
    redis_server.kill()
    with pytest.raises(Unavailable, match="is away"):
        client.wait("t", 0.2)
    redis_server.start()
    answer(redis_server, "t")
    assert client.wait("t", LONG_S).task == "t"


def test_a_server_that_loads_its_data_is_waited_for(tmp_path: Path) -> None:
    server = RedisServer(
        tmp_path,
        *("--key-load-delay", "2000"),  # microseconds a key
        *("--loading-process-events-interval-bytes", "1024"),
    )
    server.start()
    answer(server, "t")
    server.commands([*(("SET", f"k{i}", "x" * 100) for i in range(300)), ("SAVE",)])
    server.kill()
    server.start(wait=False)
    try:
        with Tidemill(settings_of(server)) as client:
            assert client.wait("t", LONG_S).task == "t"
    finally:
        server.close()


def test_clients_that_wait_make_one_connection_each_after_a_restart(
    redis_server: RedisServer,
) -> None:
    """redis_connection_storm: no client tries more than once at a time, nor all at once."""

    async def run() -> list[Answer]:
        clients = [AsyncTidemill(settings_of(redis_server)) for _ in range(50)]
        try:
            waits = (client.wait("t", LONG_S) for client in clients for _ in range(4))
            return await asyncio.gather(*waits)
        finally:
            for client in clients:
                await client.close()

    links: list[str] = []

    def restart_and_answer() -> None:
        redis_server.kill()
        redis_server.start()
        subscribed = ("PUBSUB", "NUMSUB", f"{PREFIX}:res:{{t}}")
        wait_until(lambda: redis_server.command(*subscribed)[1] == 50)
        listed = redis_server.command("CLIENT", "LIST").decode().splitlines()
        links.extend(line for line in listed if "resp=3" in line)
        answer(redis_server, "t")

    thread = when_waited_for(redis_server, 1, restart_and_answer)
    assert len(asyncio.run(run())) == 200
    thread.join()
    assert len(links) == 50


def test_a_bad_id_never_reaches_redis(client: Tidemill) -> None:
    with pytest.raises(InvalidEvent, match="task id 'a b'"):
        client.wait("a b")


def test_a_result_of_another_version_is_told(redis_server: RedisServer, client: Tidemill) -> None:
    answer(redis_server, "t", v=2)
    with pytest.raises(ContractError, match="version 2"):
        client.wait("t", LONG_S)


def test_a_cancelled_waiter_leaves_nothing_behind(redis_server: RedisServer) -> None:
    async def run() -> None:
        async with AsyncTidemill(settings_of(redis_server)) as client:
            waiting = asyncio.ensure_future(client.wait("t", LONG_S))
            channels = ("PUBSUB", "CHANNELS", f"{PREFIX}:*")
            while not await asyncio.to_thread(redis_server.command, *channels):
                await asyncio.sleep(0.005)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            while await asyncio.to_thread(redis_server.command, *channels):
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(run(), LONG_S))
