"""What the agent does with frames and with the worker's messages, without threads or clocks.

Carries out the decisions of `batching.py`: rows become bytes for the worker, replies and rules
become groups of answers.  The connection is a port, the time an argument.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.messages import Drain, Fail, Hello, Message, Reply
from models.wire import WireError, encode_score
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
from operators.delivery import AnswerGroup
from operators.pending import PendingFrame
from operators.rules import RuleEngine
from operators.scoring_stats import ScoringStats
from operators.service_time import ServiceTimes
from tidemill.contracts import DeadLetterReason, Status, Tier

log = logging.getLogger(__name__)


class WorkerPort(Protocol):
    """The connection to the worker, as the scorer needs it."""

    def send(self, frame: bytes) -> None:
        """Send one frame; raises OSError when the worker is gone or takes nothing."""

    def accepted(self) -> None:
        """The worker's HELLO fits."""

    def drop(self, why: str) -> None:
        """Close the connection; another one is made in time."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """What is remembered of a batch at the worker."""

    rows: int
    sent_ms: float


class Scorer:
    """``width`` is the number of features, ``schema_id`` what the worker's model must read."""

    def __init__(
        self,
        policy: BatchPolicy,
        width: int,
        schema_id: str,
        rules: RuleEngine | None,
        worker: WorkerPort,
        stats: ScoringStats,
    ) -> None:
        self._logic = BatchLogic(policy)
        self._width = width
        self._schema_id = schema_id
        self._rules = rules
        self._worker = worker
        self._stats = stats
        self._frames: dict[int, PendingFrame] = {}
        self._sent: dict[int, _Sent] = {}
        self._groups: list[AnswerGroup] = []
        self._version = ""

    def enter(self, pending: PendingFrame, now_ms: float) -> None:
        """Take a frame: rows that are decided are answered, the others wait for a batch."""
        self._frames[pending.number] = pending
        frame = pending.frame
        decided: dict[tuple[str, str, str], list[int]] = {}
        for row, decision in enumerate(frame.decided):
            if decision is not None:
                decided.setdefault(decision, []).append(row)
        for (status, reason, message), answered in decided.items():
            verdict = Verdict(Status(status), Tier.NONE, reason, message)
            self._groups.append(AnswerGroup(pending, answered, verdict))
        rows: Sequence[int] = range(len(frame))
        deadlines: Sequence[int] = frame.deadlines
        if decided:
            rows = [row for row in rows if frame.decided[row] is None]
            deadlines = [deadlines[row] for row in rows]
        if rows:
            self._apply(self._logic.add(Chunk(pending.number, rows, deadlines), now_ms), now_ms)

    def tick(self, now_ms: float) -> None:
        """Do what is due."""
        self._apply(self._logic.tick(now_ms), now_ms)

    def wake_at(self, now_ms: float) -> float | None:
        """When `tick` has something to do although nothing happens; None = never."""
        return self._logic.wake_at(now_ms)

    def worker_lost(self, why: str, now_ms: float) -> None:
        """Close the connection; what was at the worker is answered elsewhere."""
        self._worker.drop(why)
        self._stats.link_drops += 1
        self._sent.clear()
        self._apply(self._logic.link_down(now_ms), now_ms)

    def take_groups(self) -> list[AnswerGroup]:
        """The answers that were decided since the last call."""
        groups, self._groups = self._groups, []
        return groups

    def forget(self, pending: PendingFrame) -> None:
        """The frame is finished; callable from the thread that delivers."""
        del self._frames[pending.number]

    def on_message(self, message: Message, now_ms: float) -> None:
        """Take a message of the worker; raises WireError if it is none that a worker may send."""
        match message:
            case Reply():
                self._on_reply(message, now_ms)
            case Fail():
                self._sent.pop(message.batch_id, None)
                reason = DeadLetterReason.MODEL_ERROR
                self._apply(
                    self._logic.failed(message.batch_id, reason, message.message, now_ms), now_ms
                )
            case Hello():
                self._on_hello(message, now_ms)
            case Drain():
                self._apply(self._logic.drain(now_ms), now_ms)
            case _:
                raise WireError(f"a worker does not send {type(message).__name__}")

    def _on_hello(self, hello: Hello, now_ms: float) -> None:
        """Raises WireError when the worker serves another model than the job decodes for."""
        expected = self._schema_id
        if hello.schema_id != expected:
            raise WireError(
                f"the worker serves {hello.model} {hello.version} with schema {hello.schema_id}, "
                f"this job decodes for schema {expected}; start both with the same model folder"
            )
        self._worker.accepted()
        log.info("worker up: %s %s, batches up to %d", hello.model, hello.version, hello.max_rows)
        self._version = hello.version
        service_us = {bucket: float(us) for bucket, us in hello.service_us.items()}
        times = ServiceTimes.from_warm_up(tuple(hello.buckets), service_us)
        self._apply(self._logic.link_up(times, hello.max_rows, now_ms), now_ms)

    def _on_reply(self, reply: Reply, now_ms: float) -> None:
        service_ms = reply.service_us / 1000
        sent = self._sent.pop(reply.batch_id, None)
        if sent is not None and sent.rows != reply.rows:
            raise WireError(f"batch {reply.batch_id} was answered with {reply.rows} rows")
        decisions = self._logic.reply(reply.batch_id, reply.bucket, service_ms, now_ms)
        for decision in decisions:
            if isinstance(decision, Scored) and sent is not None:
                self._on_scored(decision, reply, sent)
        self._apply([d for d in decisions if not isinstance(d, Scored)], now_ms)

    def _on_scored(self, scored: Scored, reply: Reply, sent: _Sent) -> None:
        outputs = np.frombuffer(reply.outputs, np.float32).reshape(reply.rows, reply.out_dim)
        status = bytes(reply.status)
        bad = any(status)
        for chunk, at in zip(scored.chunks, scored.positions, strict=True):
            pending = self._frames[chunk.frame]
            waited_ms = max(0.0, sent.sent_ms - pending.frame.first_arrival_ms)
            queue_ms = waited_ms + reply.queue_us / 1000
            pending.model_version = self._version
            verdict = Verdict(
                Status.OK,
                Tier.FULL,
                queue_ms=queue_ms,
                service_ms=reply.service_us / 1000,
                model_version=self._version,
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

    def _apply(self, decisions: Sequence[Decision], now_ms: float) -> None:
        for decision in decisions:
            match decision:
                case Send():
                    self._send(decision, now_ms)
                case Degrade():
                    self._degrade(decision, now_ms)
                case Refuse(chunk, status, reason):
                    verdict = Verdict(Status(status), Tier.NONE, reason)
                    self._groups.append(AnswerGroup(self._frames[chunk.frame], chunk.rows, verdict))
                case FailRow(chunk, reason, message):
                    verdict = Verdict(Status.ERROR, Tier.NONE, reason, message)
                    pending = self._frames[chunk.frame]
                    self._groups.append(AnswerGroup(pending, chunk.rows, verdict, dead_letter=True))
                case DropLink(reason):
                    self.worker_lost(f"worker {reason}", now_ms)
                case Scored():
                    raise RuntimeError("a score without a reply; `on_message` handles these")

    def _send(self, send: Send, now_ms: float) -> None:
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
        self._sent[send.batch_id] = _Sent(rows, now_ms)
        self._stats.sent(rows)
        try:
            self._worker.send(frame)
        except OSError as error:
            self.worker_lost(str(error), now_ms)

    def _degrade(self, decision: Degrade, now_ms: float) -> None:
        chunk = decision.chunk
        if self._rules is None:
            raise RuntimeError("rows were degraded though the application has no rule engine")
        block = np.frombuffer(self._rows_of(chunk), np.float32).reshape(-1, self._width)
        pending = self._frames[chunk.frame]
        queue_ms = max(0.0, now_ms - pending.frame.first_arrival_ms)
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


def _pick(outputs: NDArray[np.float32], places: Sequence[int]) -> NDArray[np.float32]:
    if isinstance(places, range):
        return outputs[places.start : places.stop]
    return outputs[list(places)]
