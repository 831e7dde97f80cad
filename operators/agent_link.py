"""The agent's connection to its worker: connects in a thread of its own, never blocks the agent.

A worker that is stopped accepts connections (the kernel does) and then says nothing: the link
counts as up only when its HELLO has arrived.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from models.link import connect
from models.messages import Message
from models.wire import READ_BYTES, Decoder

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 1.0
_SEND_TIMEOUT_S = 0.5
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.25  # a worker that is back should not be missed for long


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """Where the worker listens, and the PEM files of mutual TLS for a remote one."""

    address: str
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""


class WorkerLink:
    """One connection; `wake` is called (from any thread) when a new one is there to be adopted."""

    def __init__(self, worker: WorkerAddress, wake: Callable[[], None]) -> None:
        self._worker = worker
        self._wake = wake
        self._fresh: socket.socket | None = None
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._pause_s = 0.0
        self._decoder = Decoder()
        self.sock: socket.socket | None = None
        self.last_error = "not connected yet"
        self._thread = threading.Thread(target=self._connect_forever, name="link", daemon=True)
        self._wanted.set()

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def adopt(self) -> socket.socket | None:
        """A connection that was made since the last call, now in use; None if there is none."""
        fresh, self._fresh = self._fresh, None
        if fresh is None:
            return None
        self.sock, self._decoder = fresh, Decoder()
        return fresh

    def accepted(self) -> None:
        """The worker's HELLO fits: should this connection break, the next try comes at once."""
        self._pause_s = 0.0

    def send(self, *parts: bytes) -> None:
        """Send one frame.  Raises OSError when the worker is gone or takes nothing."""
        if self.sock is None:
            raise ConnectionError(f"no worker at {self._worker.address}: {self.last_error}")
        self.sock.sendall(b"".join(parts))

    def receive(self) -> list[Message]:
        """Whole messages that are there.  Raises OSError at the end, WireError on foreign bytes."""
        if self.sock is None:
            return []
        data = self.sock.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the worker closed the connection")
        return self._decoder.feed(data)

    def drop(self, why: str) -> None:
        """Close the connection and begin to connect again."""
        self._note(why)
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.close()
            self.sock = None
        self._wanted.set()

    def stop(self) -> None:
        """Close for good and wait for the thread, which may take as long as a connection may.

        After it `wake` is never called again.
        """
        self._ended.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()
        for sock in (self.sock, self._fresh):
            if sock is not None:
                sock.close()
        self.sock = self._fresh = None

    def _connect_forever(self) -> None:
        while not self._ended.is_set():
            self._wanted.wait()
            # not only after a refusal: a worker with another model accepts, and is dropped again
            jitter = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            if self._ended.wait(self._pause_s * jitter):
                return
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            try:
                sock = self._connect()
            except (OSError, ValueError) as error:
                self._note(str(error))
                continue
            self._wanted.clear()
            self._fresh = sock
            self._wake()

    def _note(self, error: str) -> None:
        """Keep the latest trouble and log it once: it may repeat every second for hours."""
        if error != self.last_error and not self._ended.is_set():
            log.warning("worker at %s: %s", self._worker.address, error)
        self.last_error = error

    def _connect(self) -> socket.socket:
        worker = self._worker
        sock = connect(
            worker.address,
            _CONNECT_TIMEOUT_S,
            tls_ca=worker.tls_ca,
            tls_cert=worker.tls_cert,
            tls_key=worker.tls_key,
        )
        sock.settimeout(_SEND_TIMEOUT_S)
        return sock
