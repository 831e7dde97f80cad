"""The model's thread: one loop that reads what has come, computes one batch, answers, repeats.

Decides: when a batch is formed (the moment that the model is free), who is read, who is dropped.
Must not know: torch, TLS, what a row means.

Reading and computing share one thread on purpose: a hand-over between threads costs more than the
whole hop, and while a batch is computed the kernel keeps what arrives. What a client may have
waiting here is bounded by its credits: over them, or while it doesn't take its answers, it is not
read, so its own socket fills and it waits.
"""

from __future__ import annotations

import contextlib
import logging
import select
import signal
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from models.engine import Engine, Job
from models.merge import take_batch
from models.messages import Score, WireError
from models.metrics import WorkerMetrics
from models.wire import READ_BYTES, Decoder, encode_drain

log = logging.getLogger(__name__)

DRAIN_QUIET_NS = 250_000_000  # DRAIN has crossed frames under way by then
DRAIN_POLL_S = 0.05
LAST_WORDS_S = 1.0
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(slots=True)
class _Peer:
    sock: socket.socket
    serial: int
    decoder: Decoder = field(default_factory=Decoder)
    waiting: int = 0
    unsent: bytearray = field(default_factory=bytearray)


class Server:
    """Serves adopted connections until it is told to drain."""

    def __init__(
        self, engine: Engine, metrics: WorkerMetrics, credits_per_peer: int, drain_s: float
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._credits = credits_per_peer
        self._drain_ns = round(drain_s * 1e9)
        self._max_rows = engine.spec.max_rows
        self._poll = select.epoll()
        self._peers: dict[int, _Peer] = {}
        self._by_serial: dict[int, _Peer] = {}
        self._next_serial = 0
        self._queue: deque[Job] = deque()
        self._adopted: deque[socket.socket] = deque()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._poll.register(self._wake_read, select.EPOLLIN)
        self._read_buffer = memoryview(bytearray(READ_BYTES))
        self._drain_since_ns = 0
        self._last_read_ns = 0

    def adopt(self, sock: socket.socket) -> None:
        """Take over a greeted, non-blocking connection. From any thread."""
        self._adopted.append(sock)
        self._wake()

    def drain_on(self, *signals: signal.Signals) -> None:
        """Drain when one of these signals comes. Main thread only."""
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, lambda *_: self.drain())

    def drain(self) -> None:
        """Tell all clients to send no more, answer what is under way, then let `serve` return."""
        if not self._drain_since_ns:
            self._drain_since_ns = time.monotonic_ns()
        self._wake()

    def serve(self, close_door: Callable[[], None]) -> None:
        """Run until drained; `close_door` is called when draining begins. Raises DevicePoisonedError."""
        while not self._drain_since_ns:
            self._step(None)
        close_door()
        self._metrics.progress.draining = True
        for peer in list(self._peers.values()):
            self._send(peer, encode_drain())
        self._last_read_ns = time.monotonic_ns()
        while time.monotonic_ns() - self._drain_since_ns < self._drain_ns:
            # Quiet counts only after a look at all sockets that found nothing, however late it was.
            if not self._step(DRAIN_POLL_S) and self._is_quiet(time.monotonic_ns()):
                break
        for peer in list(self._peers.values()):
            self._close_politely(peer)

    def _is_quiet(self, now_ns: int) -> bool:
        return not self._queue and now_ns - self._last_read_ns > DRAIN_QUIET_NS

    def _step(self, wait_s: float | None) -> bool:
        """Read what is there, compute one batch, answer it. False if there was nothing to read."""
        ready = self._poll.poll(0 if self._queue else wait_s)
        for fd, events in ready:
            peer = self._peers.get(fd)
            if peer is None:
                self._woken()
                continue
            if events & select.EPOLLOUT:
                self._flush(peer)
            if events & ~select.EPOLLOUT:
                self._read(peer)
        jobs = take_batch(self._queue, self._max_rows)
        if jobs:
            for job, answer in zip(jobs, self._engine.score(jobs), strict=True):
                target = self._by_serial.get(job.source)
                if target is not None:
                    target.waiting -= 1
                    self._send(target, answer)
            self._engine.settle()
        return bool(ready)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_write.send(b"\0")

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_read.recv(4096)
        while self._adopted:
            sock = self._adopted.popleft()
            self._next_serial += 1
            peer = _Peer(sock, self._next_serial)
            self._peers[sock.fileno()] = self._by_serial[peer.serial] = peer
            self._metrics.progress.connections = len(self._peers)
            self._poll.register(sock, select.EPOLLIN)
            if self._metrics.progress.draining:
                self._send(peer, encode_drain())

    def _read(self, peer: _Peer) -> None:
        if peer.waiting >= self._credits or peer.unsent:
            return
        try:
            size = peer.sock.recv_into(self._read_buffer)
            data = bytes(self._read_buffer[:size])
            while data and isinstance(peer.sock, ssl.SSLSocket) and peer.sock.pending():
                data += peer.sock.recv(READ_BYTES)
        except _AGAIN:
            return
        except OSError as error:
            self._drop(peer, "broken", str(error))
            return
        if not data:
            cut = peer.decoder.held_bytes
            self._drop(peer, "truncated" if cut else "", f"{cut} bytes of a cut frame")
            return
        self._take(peer, data)

    def _take(self, peer: _Peer, data: bytes) -> None:
        self._last_read_ns = now_ns = time.monotonic_ns()
        try:
            for message in peer.decoder.feed(data):
                if not isinstance(message, Score):
                    raise WireError(f"a client sends SCORE only, not {type(message).__name__}")
                refusal = self._engine.refusal(message)
                if refusal is not None:
                    self._send(peer, refusal)
                    continue
                peer.waiting += 1
                self._queue.append(Job(peer.serial, message, now_ns, message.rows))
        except WireError as error:
            self._drop(peer, "bad_frame", str(error))

    def _send(self, peer: _Peer, answer: bytes) -> None:
        if peer.unsent:
            peer.unsent += answer
            return
        try:
            sent = peer.sock.send(answer)
        except _AGAIN:
            sent = 0
        except OSError as error:
            self._drop(peer, "broken", str(error))
            return
        if sent < len(answer):
            peer.unsent += answer[sent:]
            self._poll.modify(peer.sock, select.EPOLLOUT)

    def _flush(self, peer: _Peer) -> None:
        answer, peer.unsent = bytes(peer.unsent), bytearray()
        self._send(peer, answer)
        if not peer.unsent and peer.serial in self._by_serial:
            self._poll.modify(peer.sock, select.EPOLLIN)

    def _drop(self, peer: _Peer, reason: str, message: str) -> None:
        if self._by_serial.pop(peer.serial, None) is None:
            return
        if reason:
            self._metrics.count_refused(reason)
            log.warning("connection dropped (%s): %s", reason, message)
        del self._peers[peer.sock.fileno()]
        self._metrics.progress.connections = len(self._peers)
        self._poll.unregister(peer.sock)
        peer.sock.close()

    def _close_politely(self, peer: _Peer) -> None:
        with contextlib.suppress(OSError):
            if peer.unsent:
                peer.sock.settimeout(LAST_WORDS_S)
                peer.sock.sendall(peer.unsent)
        self._drop(peer, "", "")
