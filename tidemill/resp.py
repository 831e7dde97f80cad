"""What every Redis connection of ours shares: packing, login, TLS and the words for refusals.

Pure but for `tls_context`, which reads the files that the settings name.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

import hiredis

from tidemill.errors import SettingsError
from tidemill.settings import RedisSettings


def pack(command: Sequence[str | bytes | int]) -> bytes:
    """A command in the protocol of Redis."""
    packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub has tuples of one
    return packed


def login(settings: RedisSettings) -> list[tuple[str, ...]]:
    """Commands that open a connection of protocol 2; none for a server without users."""
    commands: list[tuple[str, ...]] = []
    password = settings.password.reveal()
    if settings.username:
        commands.append(("AUTH", settings.username, password))
    elif password:
        commands.append(("AUTH", password))
    return commands + _select(settings)


def login_3(settings: RedisSettings) -> list[tuple[str, ...]]:
    """The same for protocol 3, where messages and replies share one connection."""
    password = settings.password.reveal()
    hello: tuple[str, ...] = ("HELLO", "3")
    if settings.username or password:
        hello += ("AUTH", settings.username or "default", password)
    return [hello, *_select(settings)]


def _select(settings: RedisSettings) -> list[tuple[str, ...]]:
    return [("SELECT", str(settings.db))] if settings.db else []


def tls_context(settings: RedisSettings) -> ssl.SSLContext | None:
    """The TLS context, or None without TLS; raises SettingsError if a PEM file can't be read."""
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


_REMEDIES: Final = {
    "NOAUTH": "set redis.username and redis.password",
    "WRONGPASS": "check redis.username and redis.password",
    "NOPERM": "give the user the commands and keys that docs/contracts.md lists",
    "OOM": "raise maxmemory or lower redis.ttl_s",
    "LOADING": "it is reading its data and will serve soon",
    "READONLY": "it is a replica now; redis.host must name the primary",
}


def refusal(address: str, error: Exception) -> str:
    """A message for an error reply, with the remedy where it is known."""
    remedy = _REMEDIES.get(str(error).partition(" ")[0])
    return f"Redis at {address} refused: {error}" + (f"; {remedy}" if remedy else "")


def away(address: str, error: BaseException, timeout_ms: int) -> str:
    """A message for a connection that failed."""
    if isinstance(error, TimeoutError):
        return f"Redis at {address} is away: no reply within redis.timeout_ms = {timeout_ms}"
    return f"Redis at {address} is away: {error or type(error).__name__}"
