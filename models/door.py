"""Who may come in: the listening socket, peer or TLS checks, HELLO. In threads of their own.

Decides: which connections reach the model's thread. Must not know: batches, models.
A slow TLS handshake or a silent stranger must not hold up the model's thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from models.address import Address, TlsFiles, UnixAddress
from models.link import PeerRefusedError, check_peer
from models.metrics import WorkerMetrics

log = logging.getLogger(__name__)

ADMISSION_TIMEOUT_S = 5.0
MAX_CONNECTIONS = 256  # agents are one a subtask; more is a leak of a client
MAX_ADMISSIONS = 64  # strangers who say nothing must not cost a thread each without end
BACKLOG = 64
OWNER_ONLY = 0o177  # umask that leaves 0600


class AddressTakenError(OSError):
    """Another process listens there."""


class Door:
    """Accepts, checks, greets, then hands the connection over by `adopt` (called from its threads)."""

    def __init__(
        self,
        listener: socket.socket,
        tls: TlsFiles | None,
        hello: bytes,
        metrics: WorkerMetrics,
        adopt: Callable[[socket.socket], None],
    ) -> None:
        self._listener = listener
        self._context = tls.server_context() if tls else None
        self._hello = hello
        self._metrics = metrics
        self._adopt = adopt
        self._inode = _inode(listener)
        self._closed = False
        self._admissions = threading.BoundedSemaphore(MAX_ADMISSIONS)

    def open(self) -> None:
        """Begin to accept."""
        threading.Thread(target=self._accept_forever, name="door", daemon=True).start()

    def close(self) -> None:
        """Accept nobody any more; the socket file goes, unless a successor has put its own there."""
        if self._closed:
            return
        self._closed = True
        if self._inode is not None and _inode(self._listener) == self._inode:
            Path(self._listener.getsockname()).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
        self._listener.close()

    def _accept_forever(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                continue
            if self._metrics.progress.connections >= MAX_CONNECTIONS:
                self._refuse(sock, "too_many", f"{MAX_CONNECTIONS} connections are open")
                continue
            self._admissions.acquire()
            threading.Thread(target=self._admit, args=(sock,), name="admit", daemon=True).start()

    def _admit(self, sock: socket.socket) -> None:
        try:
            self._greet(sock)
        finally:
            self._admissions.release()

    def _greet(self, sock: socket.socket) -> None:
        try:
            sock.settimeout(ADMISSION_TIMEOUT_S)
            if sock.family == socket.AF_UNIX:
                check_peer(sock)
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
            sock.sendall(self._hello)
            sock.setblocking(False)
        except PeerRefusedError as error:
            self._refuse(sock, "foreign_user", str(error))
        except ssl.SSLError as error:
            self._refuse(sock, "tls", str(error))
        except OSError as error:
            self._refuse(sock, "broken", str(error))
        else:
            self._adopt(sock)

    def _refuse(self, sock: socket.socket, reason: str, message: str) -> None:
        self._metrics.count_refused(reason)
        log.warning("connection refused (%s): %s", reason, message)
        sock.close()


def listen(address: Address) -> socket.socket:
    """A listening socket; a unix one has mode 0600 from its first moment.

    Raises AddressTakenError if someone listens there, OSError if it can't be bound.
    """
    if isinstance(address, UnixAddress):
        return _listen_unix(address.path)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)


def _listen_unix(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with private_socket_file(path):
            sock.bind(str(path))
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


@contextlib.contextmanager
def private_socket_file(path: Path) -> Iterator[None]:
    """Within it a socket bound to `path` gets mode 0600, and a dead one's file is out of the way.

    Raises AddressTakenError if somebody listens there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path)
    old_mask = os.umask(OWNER_ONLY)
    try:
        yield
    finally:
        os.umask(old_mask)


def _remove_stale(path: Path) -> None:
    if not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)  # left by a process that was killed
            return
    raise AddressTakenError(
        f"another process listens on {path}: stop it, or choose another address"
    )


def _inode(listener: socket.socket) -> int | None:
    if listener.family != socket.AF_UNIX:
        return None
    try:
        return Path(listener.getsockname()).stat().st_ino
    except OSError:
        return None
