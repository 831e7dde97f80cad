"""Where a worker listens: `unix:PATH`, or `tcp://HOST:PORT` with mutual TLS.

Decides: what an address means, which TLS settings are enough. Must not know: frames, models.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from tidemill.errors import SettingsError

UNIX_PATH_BYTES = 107  # sockaddr_un has room for 108 with the closing zero


class AddressError(SettingsError):
    """An address or its TLS files can't be used: fix the settings."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file."""

    path: Path

    def __post_init__(self) -> None:
        if not 0 < len(os.fsencode(self.path)) <= UNIX_PATH_BYTES:
            raise AddressError(f"{self.path}: a socket path has 1 to {UNIX_PATH_BYTES} bytes")

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP end; port 0 lets the system choose when listening."""

    host: str
    port: int

    def __str__(self) -> str:
        return (
            f"tcp://[{self.host}]:{self.port}"
            if ":" in self.host
            else f"tcp://{self.host}:{self.port}"
        )

    @property
    def is_loopback(self) -> bool:
        """True if no other machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


Address = UnixAddress | TcpAddress


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one end of a mutual TLS connection: the CA of the peer, own certificate, own key."""

    ca: Path
    cert: Path
    key: Path

    @staticmethod
    def from_settings(ca: str, cert: str, key: str) -> TlsFiles | None:
        """None if no file is set. Raises AddressError if only some are, or one can't be read."""
        named = {"tls_ca": ca, "tls_cert": cert, "tls_key": key}
        missing = [name for name, value in named.items() if not value]
        if len(missing) == len(named):
            return None
        if missing:
            raise AddressError(f"mutual TLS needs all of {list(named)}; not set: {missing}")
        for name, value in named.items():
            if not Path(value).is_file():
                raise AddressError(f"{name}: no file {value}")
        return TlsFiles(Path(ca), Path(cert), Path(key))

    def server_context(self) -> ssl.SSLContext:
        """Refuses clients whose certificate isn't signed by `ca`. Raises AddressError."""
        return self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def client_context(self) -> ssl.SSLContext:
        """Refuses servers whose certificate isn't signed by `ca` or names another host."""
        return self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self.ca)
            context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise AddressError(f"TLS files {self.ca}, {self.cert}, {self.key}: {error}") from error
        return context


def parse_address(text: str) -> Address:
    """`unix:PATH` or `tcp://HOST:PORT` (IPv6 in brackets). Raises AddressError."""
    if text.startswith("unix:") and (path := text.removeprefix("unix:")):
        return UnixAddress(Path(path))
    if text.startswith("tcp://"):
        host, colon, port = text.removeprefix("tcp://").rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if colon and host and port.isdecimal() and int(port) < 65536:
            return TcpAddress(host, int(port))
    raise AddressError(f"{text!r} is no worker address: write unix:PATH or tcp://HOST:PORT")


def require_secure(address: Address, tls: TlsFiles | None, allow_plain_tcp: bool) -> None:
    """Raises AddressError for TCP without TLS, unless it is loopback and plainly allowed."""
    if isinstance(address, UnixAddress) or tls is not None:
        return
    if not (allow_plain_tcp and address.is_loopback):
        raise AddressError(
            f"{address}: TCP needs mutual TLS: set worker.tls_ca, tls_cert and tls_key"
            " (without TLS only loopback, and only if allowed by --allow-plain-tcp)"
        )
