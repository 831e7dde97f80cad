"""Contract: users of Redis with the rights that docs/contracts.md lists can do their work, on their
own prefix, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from operators.redis_writer import RedisWriter
from tests.answers import result
from tests.integration.redis_fixture import RedisServer
from tidemill.client import Tidemill
from tidemill.errors import RedisAway, Unavailable
from tidemill.settings import AppSettings, Settings

PREFIX = "tidemill:test"
ADMIN = ("admin", "admin-secret")
DOCS = Path(__file__).parents[2] / "docs" / "contracts.md"


def documented_rights(user: str, prefix: str) -> list[str]:
    """The line `user <name> ...` of the documents, for a prefix."""
    text = DOCS.read_text(encoding="utf-8")
    found = re.search(rf"^user {user} (.+)$", text, re.MULTILINE)
    assert found, f"docs/contracts.md has no line for user {user}"
    return found[1].replace("<prefix>", prefix).replace(">SECRET", ">secret").split()


@pytest.fixture
def guarded(redis_server: RedisServer) -> RedisServer:
    redis_server.commands(
        [
            ("ACL", "SETUSER", "admin", "on", f">{ADMIN[1]}", "~*", "&*", "+@all"),
            ("ACL", "SETUSER", "writer", *documented_rights("writer", PREFIX)),
            ("ACL", "SETUSER", "caller", *documented_rights("caller", PREFIX)),
            ("ACL", "SETUSER", "default", "off"),
        ]
    )
    return redis_server


def writer_of(server: RedisServer, prefix: str) -> RedisWriter:
    return RedisWriter(server.settings(username="writer", password="secret"), prefix)


def caller_of(server: RedisServer, env: str = "test") -> Tidemill:
    redis = server.settings(username="caller", password="secret")
    return Tidemill(Settings(app=AppSettings(name="tidemill", env=env), redis=redis))


def test_the_writer_writes_and_the_caller_reads(guarded: RedisServer) -> None:
    writer = writer_of(guarded, PREFIX)
    rows = [("t", 1, "ok", "billing", result("t")), ("u", 1, "ok", None, result("u"))]
    assert writer.write(rows) == [None, None]
    assert writer.refused_callbacks == 0
    writer.close()
    with caller_of(guarded) as client:
        assert client.wait("t", 10).task == "t"
        assert client.wait("u", 10).task == "u"


def test_the_writer_of_one_prefix_is_refused_on_another(guarded: RedisServer) -> None:
    writer = writer_of(guarded, "tidemill:prod")
    with pytest.raises(RedisAway, match=r"refused: .*rights|refused: .*NOPERM|No permissions"):
        writer.write([("t", 1, "ok", None, result("t"))])
    assert guarded.command("GET", "tidemill:prod:res:{t}", auth=ADMIN) is None


def test_the_caller_of_one_prefix_is_refused_on_another(guarded: RedisServer) -> None:
    with caller_of(guarded, env="prod") as client, pytest.raises(Unavailable, match="NOPERM"):
        client.wait("t", 0.3)


@pytest.mark.parametrize(
    "command",
    [
        ("SET", f"{PREFIX}:res:{{t}}", "forged"),
        ("DEL", f"{PREFIX}:res:{{t}}"),
        ("PUBLISH", f"{PREFIX}:res:{{t}}", "ok"),
        ("XADD", f"{PREFIX}:cb:billing", "*", "a", "b"),
        ("KEYS", "*"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
    ],
)
def test_the_caller_can_only_read(guarded: RedisServer, command: tuple[str, ...]) -> None:
    (reply,) = guarded.commands([command], auth=("caller", "secret"))
    assert isinstance(reply, Exception)
    assert "NOPERM" in str(reply)


def plain(server: RedisServer, **redis: Any) -> Settings:
    return Settings(app=AppSettings(name="tidemill", env="test"), redis=server.settings(**redis))


def test_a_wrong_password_is_told_without_the_password(redis_server: RedisServer) -> None:
    redis_server.command("CONFIG", "SET", "requirepass", "right-one")
    with (
        Tidemill(plain(redis_server, password="wrong-one")) as client,
        pytest.raises(Unavailable, match=r"WRONGPASS.*check redis\.username") as caught,
    ):
        client.wait("t", 0.2)
    assert "wrong-one" not in str(caught.value)


def test_no_password_is_told(redis_server: RedisServer) -> None:
    redis_server.command("CONFIG", "SET", "requirepass", "right-one")
    with (
        Tidemill(plain(redis_server)) as client,
        pytest.raises(Unavailable, match=r"NOAUTH.*set redis\.username"),
    ):
        client.wait("t", 0.2)


def test_a_password_and_another_database(redis_server: RedisServer) -> None:
    redis_server.command("CONFIG", "SET", "requirepass", "right-one")
    own = plain(redis_server, password="right-one", db=2)
    writer = RedisWriter(own.redis, PREFIX)
    writer.write([("t", 1, "ok", None, result("t"))])
    writer.close()
    with Tidemill(own) as client:
        assert client.wait("t", 10).task == "t"
