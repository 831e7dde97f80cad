"""The users of the containers' Redis, on a real server: each may do its work and nothing else."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from deploy.local import ready
from deploy.local.ports import HeldPorts
from deploy.tools import Tools
from operators.redis_writer import RedisWriter
from tidemill.settings import RedisSettings, Secret

DOCKER = Path(__file__).resolve().parents[2] / "deploy" / "docker"
PASSWORD = "only-for-this-machine"
PREFIX = "tidemill:dev"
MINE = f"{PREFIX}:res:{{a}}"


@pytest.fixture(scope="module")
def port(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of a server that was started by the container's own script."""
    folder = tmp_path_factory.mktemp("redis")
    with HeldPorts(1) as held:
        (number,) = held.numbers
    env = os.environ | {
        "CONF_DIR": str(DOCKER / "redis"),
        "USERS_FILE": str(folder / "users.acl"),
        "PASSWORD_FILE": str(DOCKER / "redis-password.example"),
        "REDIS_SERVER": str(tools.redis_server),
    }
    here = ("--port", str(number), "--dir", str(folder), "--bind", "127.0.0.1")
    with subprocess.Popen(
        ["sh", str(DOCKER / "redis" / "start.sh"), *here], env=env, stdout=subprocess.DEVNULL
    ) as server:
        try:
            while not ready.tcp_answers(f"127.0.0.1:{number}"):
                assert server.poll() is None
                time.sleep(0.05)
            yield number
        finally:
            server.terminate()


@pytest.fixture
def caller(port: int) -> Iterator[redis.Redis]:
    with redis.Redis(port=port, username="caller", password=PASSWORD) as client:
        yield client


def writer(port: int, prefix: str = PREFIX) -> RedisWriter:
    settings = replace(
        RedisSettings(), port=port, username="writer", password=Secret(PASSWORD), timeout_ms=5000
    )
    return RedisWriter(settings, prefix)


def test_the_password_is_not_on_the_command_line_nor_in_the_users_file(port: int) -> None:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _readable(path)]
    assert [
        line for line in lines if str(port).encode() in line and PASSWORD.encode() in line
    ] == []


def test_nobody_gets_in_without_a_password(port: int) -> None:
    with redis.Redis(port=port) as client, pytest.raises(redis.exceptions.AuthenticationError):
        client.get(MINE)


def test_the_job_writes_answers_and_a_caller_reads_them(port: int, caller: redis.Redis) -> None:
    with closing(writer(port)) as deliver:
        deliver.connect()
        assert deliver.write([("a", 1, "ok", "shop", b'{"attempt":1}')]) == [None]
    assert caller.get(MINE) == b'{"attempt":1}'
    with caller.pubsub() as waiting:  # type: ignore[no-untyped-call]
        waiting.subscribe(MINE)
        assert waiting.get_message(timeout=5) is not None


def test_a_caller_changes_nothing(caller: redis.Redis) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: caller.set(MINE, b"wrong"),
        lambda: caller.delete(MINE),
        lambda: caller.publish(MINE, "ok"),
        lambda: caller.xadd(f"{PREFIX}:cb:shop", {"a": "b"}),
        lambda: caller.expire(MINE, 1),
    ]
    for forbidden in attempts:
        with pytest.raises(redis.exceptions.NoPermissionError):
            forbidden()


def test_nobody_reaches_another_applications_keys(port: int, caller: redis.Redis) -> None:
    with pytest.raises(redis.exceptions.NoPermissionError):
        caller.get("other:dev:res:{a}")
    with redis.Redis(port=port, username="writer", password=PASSWORD) as other:
        with pytest.raises(redis.exceptions.NoPermissionError):
            other.set("other:dev:res:{a}", "x")
        with pytest.raises(redis.exceptions.NoPermissionError):
            other.publish("other:dev:res:{a}", "x")


def test_the_health_check_may_ask_for_nothing_but_a_pong(port: int) -> None:
    with redis.Redis(port=port, username="health", password="none") as client:
        assert client.ping() is True
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get(MINE)


def _readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
