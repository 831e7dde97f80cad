"""Delivery of answers: to Redis at once while it is there, else marked for the relay.

Holds no decision about rows: groups that end the same way come in, and leave as bytes that Redis
has, or that Kafka will carry to the relay.  First write wins for an equal attempt, so after a
replay the answer that the caller may have read stays, and Kafka gets that one too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from operators.answers import ModelIdentity, Verdict, encode_answers
from operators.pending import PendingFrame
from operators.redis_script import DeliveryRow
from operators.scoring_stats import ScoringStats
from tidemill.errors import RedisAway

log = logging.getLogger(__name__)


class ResultWriter(Protocol):
    """What delivery needs of Redis; `operators.redis_writer.RedisWriter` is the real one."""

    def connect(self) -> None:
        """See whether Redis takes writes.  Blocks for its time-out at most; raises RedisAway."""

    def write(self, rows: Sequence[DeliveryRow]) -> list[bytes | None]:
        """Write rows; None = written, bytes = the older value that stays.  Raises RedisAway."""


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """Rows of one frame that end the same way; ``outputs`` float32 [rows, outputs] if scored."""

    pending: PendingFrame
    rows: Sequence[int]
    verdict: Verdict
    outputs: NDArray[np.float32] | None = None
    dead_letter: bool = False


class Deliverer:
    """Turns groups into delivered answers; `now_ms` is the shell's clock."""

    def __init__(
        self,
        model: ModelIdentity,
        writer: ResultWriter | None,
        stats: ScoringStats,
        now_ms: Callable[[], float],
    ) -> None:
        self._model = model
        self._writer = writer
        self._stats = stats
        self._now_ms = now_ms
        self.away = threading.Event()
        """Set while Redis is away: until `reconnect` has reached it, no write is tried."""

    def deliver(self, groups: Sequence[AnswerGroup]) -> list[PendingFrame]:
        """Answer all rows of ``groups``; returns the frames that are complete with that."""
        done_ms = int(self._now_ms())
        values = [self._encode(group, done_ms) for group in groups]
        delivered = self._write(groups, values)
        finished: list[PendingFrame] = []
        for group, answers in zip(groups, values, strict=True):
            self._account(group, done_ms)
            group.pending.answer(group.rows, answers, delivered=delivered)
            if group.pending.left == 0:
                finished.append(group.pending)
        return finished

    def _encode(self, group: AnswerGroup, done_ms: int) -> list[bytes]:
        pending = group.pending
        return encode_answers(
            pending.frame,
            group.rows,
            group.verdict,
            group.outputs,
            self._model,
            (pending.control_version, pending.frozen),
            done_ms,
        )

    def reconnect(self) -> float:
        """Try to reach Redis again; returns the pause before the next try in ms, 0 if it is back.

        Blocks for Redis' time-out: call it in a thread on which no row waits.
        """
        if self._writer is None:
            return 0
        try:
            self._writer.connect()
        except RedisAway as error:
            self._stats.redis_failures += 1
            return max(1, error.retry_ms)
        log.info("Redis is back")
        self.away.clear()
        return 0

    def _write(self, groups: Sequence[AnswerGroup], values: list[list[bytes]]) -> bool:
        """Write to Redis; values that stay there replace ours in ``values``."""
        writer = self._writer
        if writer is None:
            return True
        if self.away.is_set() or not self._try(writer, groups, values):
            self._stats.owed(sum(len(answers) for answers in values))
            return False
        return True

    def _try(
        self, writer: ResultWriter, groups: Sequence[AnswerGroup], values: list[list[bytes]]
    ) -> bool:
        rows = [
            (frame.tasks[r], frame.attempts[r], group.verdict.status, frame.reply_to[r], value)
            for group, answers in zip(groups, values, strict=True)
            for frame in (group.pending.frame,)
            for r, value in zip(group.rows, answers, strict=True)
        ]
        began_ms = self._now_ms()
        try:
            kept = writer.write(rows)
        except RedisAway as error:
            self._stats.redis_failures += 1
            log.warning("%s; until it is back, answers are left to the relay", error)
            self.away.set()
            return False
        self._stats.delivered(len(rows), self._now_ms() - began_ms)
        if any(kept):
            self._keep_older(values, kept)
        return True

    def _keep_older(self, values: list[list[bytes]], kept: Sequence[bytes | None]) -> None:
        at = 0
        for answers in values:
            for i in range(len(answers)):
                older = kept[at]
                if older is not None:
                    answers[i] = older
                    self._stats.kept_older += 1
                at += 1

    def _account(self, group: AnswerGroup, done_ms: int) -> None:
        verdict, pending = group.verdict, group.pending
        self._stats.answered(group.rows, pending.frame, verdict, done_ms)
        if group.dead_letter:
            reason, message = verdict.reason or "model_error", verdict.message or ""
            self._stats.dead_lettered(reason, len(group.rows))
            pending.dead.extend((row, reason, message) for row in group.rows)
