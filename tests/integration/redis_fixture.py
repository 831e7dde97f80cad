"""A real Redis of one test: started on a free port, killed, stopped and started again at will."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import hiredis

from deploy.tools import Tools
from tidemill.resp import pack
from tidemill.settings import RedisSettings

_START_S: Final = 20.0


@functools.cache
def redis_binary() -> str:
    """The server that the local stack would take."""
    return str(Tools().redis_server)


class RedisServer:
    """One server process; data stay in ``folder`` over restarts."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.port = _free_port()
        self._options: tuple[str, ...] = options
        self._process: subprocess.Popen[bytes] | None = None

    def settings(self, **changes: Any) -> RedisSettings:
        """Settings that reach this server."""
        return RedisSettings(host="127.0.0.1", port=self.port, **changes)

    def start(self, *, wait: bool = True) -> None:
        """Start; returns when it answers, whatever it says."""
        log = (self.folder / "redis.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    redis_binary(),
                    *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)),
                    *("--save", ""),
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )
        if wait:
            self._wait()

    def kill(self) -> None:
        """End it as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def hang(self) -> None:
        """Stop answering; connections stay open."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again, also what was asked meanwhile."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End it for good."""
        self.kill()

    def command(self, *parts: str | bytes | int, auth: tuple[str, str] | None = None) -> Any:
        """One command on a connection of its own; raises the error reply."""
        (reply,) = self.commands([parts], auth=auth)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def commands(
        self, commands: Sequence[Sequence[str | bytes | int]], auth: tuple[str, str] | None = None
    ) -> list[Any]:
        """Commands on one connection; error replies are values."""
        first: list[Sequence[str | bytes | int]] = [("AUTH", *auth)] if auth else []
        with socket.create_connection(("127.0.0.1", self.port), 5) as link:
            link.sendall(b"".join(pack(command) for command in (*first, *commands)))
            replies = _replies(link)
            answers = [next(replies) for _ in (*first, *commands)]
        return answers[len(first) :]

    @contextlib.contextmanager
    def listening(self, channel: str) -> Iterator[Iterator[bytes]]:
        """The messages of one channel, as they come."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as link:
            replies = _replies(link)
            link.sendall(pack(("SUBSCRIBE", channel)))
            assert next(replies)[0] == b"subscribe"
            yield (message[2] for message in replies)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _wait(self) -> None:
        end = time.monotonic() + _START_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError, AssertionError, hiredis.HiredisError):
                self.commands([("PING",)])
                return
            time.sleep(0.02)
        raise AssertionError(f"Redis did not start: {(self.folder / 'redis.log').read_text()}")


def _replies(link: socket.socket) -> Iterator[Any]:
    reader = hiredis.Reader()
    while True:
        if (reply := reader.gets()) is False:
            data = link.recv(65_536)
            assert data, "Redis closed the connection"
            reader.feed(data)
        else:
            yield reply


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
