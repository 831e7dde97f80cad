"""The agent of a subtask: plain threads beside the operator that score and deliver.

One thread runs the batching logic, speaks to the worker and, while nothing waits, delivers by
itself; under load a second one delivers, so that a batch computes while the one before it is
written.  A third one looks for a Redis that is away, so that no row waits for its time-outs.  None
ever touches a Java object.  The lane puts frames in and takes finished ones out;
a slow worker or Redis therefore never blocks the operator.  All decisions are in `batching.py`,
what becomes of them in `scorer.py`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from models.wire import WireError
from operators.agent_link import WorkerAddress, WorkerLink
from operators.batch_state import BatchPolicy
from operators.delivery import AnswerGroup, Deliverer
from operators.pending import FinishedFrame, Finisher, PendingFrame
from operators.rules import RuleEngine
from operators.scorer import Scorer
from operators.scoring_stats import ScoringStats

_LONGEST_WAIT_MS = 200.0
_STOP_S = 5.0


def wall_clock_ms() -> float:
    """Epoch milliseconds, as deadlines are."""
    return time.time() * 1000


class Agent:
    """Scores and delivers the frames of one subtask; `finished` and `error` are for the lane."""

    def __init__(
        self,
        policy: BatchPolicy,
        worker: WorkerAddress,
        rules: RuleEngine | None,
        deliverer: Deliverer,
        finisher: Finisher,
        stats: ScoringStats,
        now_ms: Callable[[], float] = wall_clock_ms,
    ) -> None:
        self._scorer = Scorer(
            policy, finisher.feature_count, finisher.schema_id, rules, self, stats
        )
        self._deliverer = deliverer
        self._finisher = finisher
        self._now_ms = now_ms
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._link = WorkerLink(worker, self._wake)
        self._poll = select.poll()
        self._poll.register(self._wake_fd, select.POLLIN)
        self._input: deque[PendingFrame] = deque()
        self._handover: queue.Queue[list[AnswerGroup] | None] = queue.Queue(4)
        self._handed = self._taken = 0
        self.entered_rows = self.left_rows = 0
        self._max_pending_rows = policy.max_pending_rows
        self._stopped = False
        self._ended = threading.Event()
        self.finished: deque[FinishedFrame] = deque()
        self.error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._guard, args=(loop,), name=name, daemon=True)
            for name, loop in (
                ("score", self._score),
                ("deliver", self._deliver),
                ("redis", self._wait_for_redis),
            )
        ]

    def start(self) -> None:
        """Begin to work."""
        self._link.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; frames that are not finished stay in the lane's state."""
        self._end()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_STOP_S)
        self._link.stop()
        # A number in use must not be closed: the JVM would give it to a file or a socket, and a
        # late wake-up would write into that.
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._wake_fd)

    @property
    def full(self) -> bool:
        """Whether the lane must wait before it puts in more."""
        return self.entered_rows - self.left_rows >= self._max_pending_rows

    def put(self, pending: PendingFrame) -> None:
        """Hand over a frame; called by the operator's thread only."""
        self.entered_rows += len(pending.frame)
        self._input.append(pending)
        self._wake()

    def _wake(self) -> None:
        os.eventfd_write(self._wake_fd, 1)

    def _guard(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:  # noqa: BLE001 - the lane raises it in the operator's thread
            self.error = error
        finally:
            self._end()  # no thread outlives the others

    def _end(self) -> None:
        self._stopped = True
        self._ended.set()
        self._deliverer.away.set()
        self._wake()
        with contextlib.suppress(queue.Full):  # full: the thread will look by itself
            self._handover.put_nowait(None)

    def _score(self) -> None:
        scorer = self._scorer
        while not self._stopped:
            ready = {fd for fd, _ in self._poll.poll(self._timeout_ms())}
            if self._wake_fd in ready:
                os.eventfd_read(self._wake_fd)
                self._adopt_link()
            if self._link.sock is not None and self._link.sock.fileno() in ready:
                self._read_worker()
            while self._input:
                scorer.enter(self._input.popleft(), self._now_ms())
            scorer.tick(self._now_ms())
            self._pass_on(scorer.take_groups())

    def _timeout_ms(self) -> float:
        now_ms = self._now_ms()
        wake_ms = self._scorer.wake_at(now_ms)
        if wake_ms is None:
            return _LONGEST_WAIT_MS
        return min(max(wake_ms - now_ms, 0.0), _LONGEST_WAIT_MS)

    def _adopt_link(self) -> None:
        sock = self._link.adopt()
        if sock is not None:
            self._poll.register(sock, select.POLLIN)

    def _read_worker(self) -> None:
        try:
            for message in self._link.receive():
                self._scorer.on_message(message, self._now_ms())
        except (OSError, WireError) as error:
            self._scorer.worker_lost(str(error), self._now_ms())

    def send(self, frame: bytes) -> None:
        """Send one frame to the worker (called by the scorer).  Raises OSError."""
        self._link.send(frame)

    def accepted(self) -> None:
        """The worker's HELLO fits (called by the scorer)."""
        self._link.accepted()

    def drop(self, why: str) -> None:
        """Close the connection (called by the scorer)."""
        if self._link.sock is not None:
            self._poll.unregister(self._link.sock)
        self._link.drop(why)

    def _pass_on(self, groups: list[AnswerGroup]) -> None:
        """Deliver what was decided: here while nothing waits, else in the second thread."""
        if not groups:
            return
        if not self._input and self._handed == self._taken:
            self._finish(self._deliverer.deliver(groups))
            return
        self._handed += 1
        self._hand_over(groups)

    def _hand_over(self, groups: list[AnswerGroup]) -> None:
        """Waits while the second thread is behind, but not for one that has ended."""
        while not self._stopped:
            with contextlib.suppress(queue.Full):
                self._handover.put(groups, timeout=_STOP_S / 10)
                return

    def _deliver(self) -> None:
        while not self._stopped:
            groups = self._handover.get()
            if groups is not None:
                self._finish(self._deliverer.deliver(groups))
                self._taken += 1

    def _wait_for_redis(self) -> None:
        while True:
            self._deliverer.away.wait()
            if self._stopped:
                return
            pause_ms = self._deliverer.reconnect()
            if pause_ms and self._ended.wait(pause_ms / 1000):
                return

    def _finish(self, frames: Sequence[PendingFrame]) -> None:
        for pending in frames:
            self._scorer.forget(pending)
            self.finished.append(self._finisher.finish(pending))
            self.left_rows += len(pending.frame)
