"""One raw connection to Redis with a deadline: a late reply is never matched to a later request.

Opens (resolving the name anew), authenticates, selects the database; sends bytes and reads as many
replies as were asked for.  Any trouble closes the connection, so the next request starts clean.
Deadlines come as a function that tells the seconds left and raises TimeoutError after them.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

import hiredis

from tidemill.errors import RedisAway
from tidemill.resp import away, login, pack, refusal, tls_context
from tidemill.settings import RedisSettings

_CHUNK_BYTES: Final = 65_536

SecondsLeft = Callable[[], float]


class RedisLink:
    """A connection, opened on the first call; use it from one thread at a time."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._tls = tls_context(settings)
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()

    @property
    def address(self) -> str:
        """Host and port, for messages."""
        return f"{self._settings.host}:{self._settings.port}"

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._socket is not None

    def call(self, request: bytes, replies: int, left: SecondsLeft) -> list[Any]:
        """Send ``request`` and return its ``replies``; error replies are values, not raised.

        Blocks no longer than ``left`` allows; raises RedisAway.
        """
        try:
            if self._socket is None:
                self._open(left)
            return self._exchange(request, replies, left)
        except RedisAway:
            self.close()
            raise
        except (OSError, hiredis.HiredisError) as error:
            self.close()
            raise RedisAway(away(self.address, error, self._settings.timeout_ms)) from error
        except BaseException:
            self.close()  # a reply may still be on its way
            raise

    def close(self) -> None:
        """Drop the connection; safe at any time."""
        sock, self._socket = self._socket, None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.close()

    def _open(self, left: SecondsLeft) -> None:
        settings = self._settings
        sock = socket.create_connection((settings.host, settings.port), left())
        self._socket = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._tls is not None:
            sock.settimeout(left())
            self._socket = self._tls.wrap_socket(sock, server_hostname=settings.host)
        self._reader = hiredis.Reader()
        commands = login(settings)
        if not commands:
            return
        packed = b"".join(pack(command) for command in commands)
        for reply in self._exchange(packed, len(commands), left):
            if isinstance(reply, Exception):
                raise RedisAway(refusal(self.address, reply))

    def _exchange(self, request: bytes, replies: int, left: SecondsLeft) -> list[Any]:
        sock, reader = self._socket, self._reader
        if sock is None:
            raise RedisAway(f"Redis at {self.address} is not connected")
        sock.settimeout(left())
        sock.sendall(request)
        got: list[Any] = []
        while len(got) < replies:
            reply = reader.gets()
            if reply is not False:
                got.append(reply)
                continue
            sock.settimeout(left())
            data = sock.recv(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("it closed the connection")
            reader.feed(data)
        return got
