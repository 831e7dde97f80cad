"""Connect to a worker: unix socket with a check of who owns the other end, or TCP with mutual TLS.

Decides: whom to trust. Must not know: frames.
"""

from __future__ import annotations

import os
import socket
import ssl
from struct import Struct

from models.address import TcpAddress, TlsFiles, UnixAddress, parse_address, require_secure

_UCRED = Struct("3i")  # pid, uid, gid


class PeerRefusedError(ConnectionError):
    """The other end runs as a user who is neither this one nor root."""


def peer_uid(sock: socket.socket) -> int:
    """User id of the process at the other end of a unix socket."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    uid: int = _UCRED.unpack(raw)[1]
    return uid


def check_peer(sock: socket.socket) -> None:
    """Raises PeerRefusedError unless the peer is this user or root."""
    uid = peer_uid(sock)
    if uid not in (os.geteuid(), 0):
        raise PeerRefusedError(
            f"peer runs as uid {uid}, this process as {os.geteuid()}: run both as one user"
        )


def connect(
    address: str,
    timeout_s: float,
    *,
    tls_ca: str = "",
    tls_cert: str = "",
    tls_key: str = "",
    allow_plain_tcp: bool = False,
) -> socket.socket:
    """A connected socket, which keeps `timeout_s` as its time-out.

    May block for `timeout_s`. Raises AddressError (settings), PeerRefusedError, ssl.SSLError or OSError.
    """
    target = parse_address(address)
    tls = TlsFiles.from_settings(tls_ca, tls_cert, tls_key)
    require_secure(target, tls, allow_plain_tcp)
    if isinstance(target, UnixAddress):
        return _connect_unix(target, timeout_s)
    return _connect_tcp(target, timeout_s, tls)


def _connect_unix(target: UnixAddress, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(str(target.path))
        check_peer(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def _connect_tcp(target: TcpAddress, timeout_s: float, tls: TlsFiles | None) -> socket.socket:
    sock = socket.create_connection((target.host, target.port), timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return sock
        wrapped: ssl.SSLSocket = tls.client_context().wrap_socket(sock, server_hostname=target.host)
        return wrapped
    except BaseException:
        sock.close()
        raise
