"""One raw connection to Redis with a deadline: a late reply is never matched to a later request.

Opens (resolving the name anew), authenticates, selects the database; sends bytes and reads as many
replies as were asked for.  Any trouble closes the connection, so the next request starts clean.
Deadlines come as a function that tells the seconds left and raises TimeoutError after them.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

import hiredis

from tidemill.errors import RedisAway, SettingsError
from tidemill.settings import RedisSettings

_CHUNK_BYTES: Final = 65_536

SecondsLeft = Callable[[], float]


def pack(command: Sequence[str | bytes | int]) -> bytes:
    """A command in the protocol of Redis."""
    packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub has tuples of one
    return packed


class RedisLink:
    """A connection, opened on the first call; use it from one thread at a time."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._tls = _tls_context(settings)
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
            raise RedisAway(
                f"Redis at {self.address} is away: {_what(error, self._settings.timeout_ms)}"
            ) from error
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
        commands = _handshake(settings)
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


def refusal(address: str, error: Exception) -> str:
    """A message for an error reply, with the remedy where it is known."""
    code = str(error).partition(" ")[0]
    remedy = _REMEDIES.get(code, "")
    return f"Redis at {address} refused: {error}{'; ' if remedy else ''}{remedy}"


_REMEDIES: Final = {
    "NOAUTH": "set redis.username and redis.password",
    "WRONGPASS": "check redis.username and redis.password",
    "NOPERM": "give the user the commands and keys of deploy/redis's ACL file",
    "OOM": "raise maxmemory or lower redis.ttl_s",
    "LOADING": "it is reading its data and will serve soon",
    "READONLY": "it is a replica now; redis.host must name the primary",
}


def _handshake(settings: RedisSettings) -> list[tuple[str, ...]]:
    commands: list[tuple[str, ...]] = []
    password = settings.password.reveal()
    if settings.username:
        commands.append(("AUTH", settings.username, password))
    elif password:
        commands.append(("AUTH", password))
    if settings.db:
        commands.append(("SELECT", str(settings.db)))
    return commands


def _tls_context(settings: RedisSettings) -> ssl.SSLContext | None:
    if not settings.tls:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca or None)
        if settings.tls_cert:
            context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"redis.tls_ca, tls_cert or tls_key can't be read ({error}): check the PEM files"
        ) from error
    return context


def _what(error: Exception, timeout_ms: int) -> str:
    if isinstance(error, TimeoutError):
        return f"no reply within redis.timeout_ms = {timeout_ms}"
    return str(error) or type(error).__name__
