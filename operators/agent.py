"""The agent of a subtask: plain threads beside the operator that score and deliver.

One thread runs the batching logic, speaks to the worker and, while nothing waits, delivers by
itself; under load a second one delivers, so that a batch computes while the one before it is
written.  Neither ever touches a Java object.  The lane puts frames in and takes finished ones out;
a slow worker or Redis therefore never blocks the operator.  All decisions are in `batching.py`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.messages import Drain, Fail, Hello, Message, Reply
from models.wire import WireError, encode_score
from operators.agent_link import WorkerAddress, WorkerLink
from operators.answers import Verdict
from operators.batch_state import BatchPolicy
from operators.batch_types import (
    Chunk,
    Decision,
    Degrade,
    DropLink,
    FailRow,
    Refuse,
    Scored,
    Send,
)
from operators.batching import BatchLogic
from operators.delivery import AnswerGroup, Deliverer
from operators.pending import FinishedFrame, Finisher, PendingFrame
from operators.rules import RuleEngine
from operators.scoring_stats import ScoringStats
from operators.service_time import ServiceTimes
from tidemill.contracts import DeadLetterReason, Status, Tier

log = logging.getLogger(__name__)

_LONGEST_WAIT_MS = 200.0
_STOP_S = 5.0


def wall_clock_ms() -> float:
    """Epoch milliseconds, as deadlines are."""
    return time.time() * 1000


@dataclass(frozen=True, slots=True)
class _Sent:
    """What the agent remembers of a batch at the worker."""

    chunks: Sequence[Chunk]
    sent_ms: float


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
        self._logic = BatchLogic(policy)
        self._rules = rules
        self._deliverer = deliverer
        self._finisher = finisher
        self._stats = stats
        self._now_ms = now_ms
        self._width = finisher.feature_count
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._link = WorkerLink(worker, self._wake)
        self._poll = select.poll()
        self._poll.register(self._wake_fd, select.POLLIN)
        self._input: deque[PendingFrame] = deque()
        self._frames: dict[int, PendingFrame] = {}
        self._sent: dict[int, _Sent] = {}
        self._groups: list[AnswerGroup] = []
        self._handover: queue.Queue[list[AnswerGroup] | None] = queue.Queue(4)
        self._handed = self._taken = 0
        self.entered_rows = self.left_rows = 0
        self._max_pending_rows = policy.max_pending_rows
        self._stopped = False
        self.finished: deque[FinishedFrame] = deque()
        self.error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._guard, args=(loop,), name=name, daemon=True)
            for name, loop in (("score", self._score), ("deliver", self._deliver))
        ]

    def start(self) -> None:
        """Begin to work."""
        self._link.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; frames that are not finished stay in the lane's state."""
        self._stopped = True
        self._wake()
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
            self._stopped = True
            self._wake()
        finally:
            self._hand_over(None)  # neither thread outlives the other

    def _score(self) -> None:
        while not self._stopped:
            ready = {fd for fd, _ in self._poll.poll(self._timeout_ms())}
            if self._wake_fd in ready:
                os.eventfd_read(self._wake_fd)
                self._adopt_link()
            if self._link.sock is not None and self._link.sock.fileno() in ready:
                self._read_worker()
            self._take_input()
            self._apply(self._logic.tick(self._now_ms()))
            self._pass_on()

    def _timeout_ms(self) -> float:
        now_ms = self._now_ms()
        wake_ms = self._logic.wake_at(now_ms)
        if wake_ms is None:
            return _LONGEST_WAIT_MS
        return min(max(wake_ms - now_ms, 0.0), _LONGEST_WAIT_MS)

    def _adopt_link(self) -> None:
        sock = self._link.adopt()
        if sock is not None:
            self._poll.register(sock, select.POLLIN)

    def _drop_link(self, why: str) -> None:
        if self._link.sock is not None:
            self._poll.unregister(self._link.sock)
        self._link.drop(why)
        self._stats.link_drops += 1
        self._sent.clear()
        self._apply(self._logic.link_down(self._now_ms()))

    def _read_worker(self) -> None:
        try:
            for message in self._link.receive():
                self._on_message(message)
        except (OSError, WireError) as error:
            self._drop_link(str(error))

    def _on_message(self, message: Message) -> None:
        now_ms = self._now_ms()
        match message:
            case Reply():
                self._on_reply(message, now_ms)
            case Fail():
                self._sent.pop(message.batch_id, None)
                reason = DeadLetterReason.MODEL_ERROR
                self._apply(self._logic.failed(message.batch_id, reason, message.message, now_ms))
            case Hello():
                self._on_hello(message, now_ms)
            case Drain():
                self._apply(self._logic.drain(now_ms))
            case _:
                raise WireError(f"a worker does not send {type(message).__name__}")

    def _on_hello(self, hello: Hello, now_ms: float) -> None:
        """Raises WireError when the worker serves another model than the job decodes for."""
        expected = self._finisher.schema_id
        if hello.schema_id != expected:
            raise WireError(
                f"the worker serves {hello.model} {hello.version} with schema {hello.schema_id}, "
                f"this job decodes for schema {expected}; start both with the same model folder"
            )
        self._link.accepted()
        log.info("worker up: %s %s, batches up to %d", hello.model, hello.version, hello.max_rows)
        service_us = {bucket: float(us) for bucket, us in hello.service_us.items()}
        times = ServiceTimes.from_warm_up(tuple(hello.buckets), service_us)
        self._apply(self._logic.link_up(times, hello.max_rows, now_ms))

    def _on_reply(self, reply: Reply, now_ms: float) -> None:
        service_ms = reply.service_us / 1000
        sent = self._sent.pop(reply.batch_id, None)
        if sent is not None and sum(len(chunk) for chunk in sent.chunks) != reply.rows:
            raise WireError(f"batch {reply.batch_id} was answered with {reply.rows} rows")
        decisions = self._logic.reply(reply.batch_id, reply.bucket, service_ms, now_ms)
        for decision in decisions:
            if isinstance(decision, Scored) and sent is not None:
                self._on_scored(decision, reply, sent)
        self._apply([decision for decision in decisions if not isinstance(decision, Scored)])

    def _on_scored(self, scored: Scored, reply: Reply, sent: _Sent) -> None:
        outputs = np.frombuffer(reply.outputs, np.float32).reshape(reply.rows, reply.out_dim)
        status = bytes(reply.status)
        bad = any(status)
        for chunk, at in zip(scored.chunks, scored.positions, strict=True):
            pending = self._frames[chunk.frame]
            waited_ms = max(0.0, sent.sent_ms - pending.frame.first_arrival_ms)
            queue_ms = waited_ms + reply.queue_us / 1000
            verdict = Verdict(
                Status.OK, Tier.FULL, queue_ms=queue_ms, service_ms=reply.service_us / 1000
            )
            rows, places = chunk.rows, at
            if bad:
                rows, places = self._set_aside(pending, chunk, at, status)
            if rows:
                values = _pick(outputs, places)
                self._groups.append(AnswerGroup(pending, rows, verdict, values))

    def _set_aside(
        self, pending: PendingFrame, chunk: Chunk, at: Sequence[int], status: bytes
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Rows that the worker could not score become errors; returns the others."""
        good = [
            (row, place) for row, place in zip(chunk.rows, at, strict=True) if not status[place]
        ]
        bad = [row for row, place in zip(chunk.rows, at, strict=True) if status[place]]
        if bad:
            verdict = Verdict(
                Status.ERROR,
                Tier.NONE,
                DeadLetterReason.NON_FINITE_OUTPUT,
                "the model returned NaN or infinity for this record; look at its features",
            )
            self._groups.append(AnswerGroup(pending, bad, verdict, dead_letter=True))
        return [row for row, _ in good], [place for _, place in good]

    def _take_input(self) -> None:
        while self._input:
            pending = self._input.popleft()
            self._frames[pending.number] = pending
            frame = pending.frame
            decided: dict[tuple[str, str, str], list[int]] = {}
            for row, decision in enumerate(frame.decided):
                if decision is not None:
                    decided.setdefault(decision, []).append(row)
            for (status, reason, message), rows in decided.items():
                verdict = Verdict(Status(status), Tier.NONE, reason, message)
                self._groups.append(AnswerGroup(pending, rows, verdict))
            self._enter(pending, frame.deadlines, any(decided))

    def _enter(self, pending: PendingFrame, deadlines: Sequence[int], some_decided: bool) -> None:
        rows: Sequence[int] = range(len(deadlines))
        if some_decided:
            rows = [row for row in rows if pending.frame.decided[row] is None]
            deadlines = [deadlines[row] for row in rows]
        if rows:
            chunk = Chunk(pending.number, rows, deadlines)
            self._apply(self._logic.add(chunk, self._now_ms()))

    def _apply(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Send():
                    self._send(decision)
                case Degrade():
                    self._degrade(decision)
                case Refuse(chunk, status, reason):
                    verdict = Verdict(Status(status), Tier.NONE, reason)
                    self._groups.append(AnswerGroup(self._frames[chunk.frame], chunk.rows, verdict))
                case FailRow(chunk, reason, message):
                    verdict = Verdict(Status.ERROR, Tier.NONE, reason, message)
                    pending = self._frames[chunk.frame]
                    self._groups.append(AnswerGroup(pending, chunk.rows, verdict, dead_letter=True))
                case DropLink(reason):
                    self._drop_link(f"worker {reason}")
                case Scored():
                    raise RuntimeError("a score without a reply; `_on_reply` handles these")

    def _send(self, send: Send) -> None:
        blocks = [self._rows_of(chunk) for chunk in send.chunks]
        rows = sum(len(chunk) for chunk in send.chunks)
        frame = encode_score(
            send.batch_id,
            b"".join(blocks),
            rows,
            4 * self._width,
            int(send.budget_ms * 1e6),
            np.arange(rows, dtype="<u4").tobytes(),
        )
        self._sent[send.batch_id] = _Sent(send.chunks, self._now_ms())
        self._stats.sent(rows)
        try:
            self._link.send(frame)
        except OSError as error:
            self._drop_link(str(error))

    def _degrade(self, decision: Degrade) -> None:
        chunk = decision.chunk
        if self._rules is None:
            raise RuntimeError("rows were degraded though the application has no rule engine")
        block = np.frombuffer(self._rows_of(chunk), np.float32).reshape(-1, self._width)
        pending = self._frames[chunk.frame]
        queue_ms = max(0.0, self._now_ms() - pending.frame.first_arrival_ms)
        verdict = Verdict(Status.OK, Tier.RULES, decision.reason, queue_ms=queue_ms)
        self._groups.append(AnswerGroup(pending, chunk.rows, verdict, self._rules.score(block)))

    def _rows_of(self, chunk: Chunk) -> bytes:
        """The float32 features of the rows of a chunk, row-major."""
        frame = self._frames[chunk.frame].frame
        if len(chunk) == len(frame):
            return frame.block
        row_bytes = 4 * self._width
        rows = chunk.rows
        if isinstance(rows, range):
            return frame.block[rows.start * row_bytes : rows.stop * row_bytes]
        block = frame.block
        return b"".join([block[row * row_bytes : (row + 1) * row_bytes] for row in rows])

    def _pass_on(self) -> None:
        """Deliver what was decided: here while nothing waits, else in the second thread."""
        if not self._groups:
            return
        groups, self._groups = self._groups, []
        if not self._input and self._handed == self._taken:
            self._finish(self._deliverer.deliver(groups))
            return
        self._handed += 1
        self._hand_over(groups)

    def _hand_over(self, groups: list[AnswerGroup] | None) -> None:
        """Waits while the second thread is behind, but not for one that has ended."""
        while True:
            with contextlib.suppress(queue.Full):
                self._handover.put(groups, timeout=_STOP_S / 10)
                return
            if self._stopped:
                return

    def _deliver(self) -> None:
        while (groups := self._handover.get()) is not None:
            self._finish(self._deliverer.deliver(groups))
            self._taken += 1

    def _finish(self, frames: Sequence[PendingFrame]) -> None:
        for pending in frames:
            del self._frames[pending.number]
            self.finished.append(self._finisher.finish(pending))
            self.left_rows += len(pending.frame)


def _pick(outputs: NDArray[np.float32], places: Sequence[int]) -> NDArray[np.float32]:
    if isinstance(places, range):
        return outputs[places.start : places.stop]
    return outputs[list(places)]
