"""Frames in, replies out: merge, pad, run, check, split. The part of a worker without sockets.

Decides: what each frame is answered. Must not know: connections, torch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.merge import Block, OutputShapeError, bucket_for, checked, fill, row_status
from models.messages import Score
from models.metrics import WorkerMetrics
from models.spec import ModelSpec
from models.wire import encode_fail, encode_reply


class BatchModel(Protocol):
    """A loaded model. Called by one thread only."""

    def run(self, block: Block) -> Block:
        """Outputs [n, k] for inputs float32 [n, f]. May raise anything; keeps no hold of `block`."""


class DevicePoisonedError(RuntimeError):
    """The accelerator's context is broken for good: only a new process can go on."""


@dataclass(frozen=True, slots=True)
class Job:
    """One SCORE frame that waits. `source` = who gets the answer; `arrived_ns` = seen at, monotonic."""

    source: int
    score: Score
    arrived_ns: int

    @property
    def rows(self) -> int:
        """Rows of the frame."""
        return self.score.rows


class Engine:
    """Scores batches of jobs with one model. Not thread-safe: it belongs to the model's thread."""

    def __init__(self, spec: ModelSpec, model: BatchModel, metrics: WorkerMetrics) -> None:
        self.spec = spec
        self._model = model
        self._metrics = metrics
        self._progress = metrics.progress
        self._columns = len(spec.outputs)
        self._buffer = np.zeros((spec.max_rows, len(spec.features)), np.float32)

    def refusal(self, score: Score) -> bytes | None:
        """A FAIL for a frame that this model can't take; None if it can."""
        spec = self.spec
        if score.row_bytes != spec.row_bytes:
            reason = "wrong_row_bytes"
            message = (
                f"rows have {score.row_bytes} bytes; model {spec.name} {spec.version} takes"
                f" {spec.row_bytes} ({len(spec.features)} float32 features)"
            )
        elif score.rows > spec.max_rows:
            reason = "too_many_rows"
            message = f"{score.rows} rows in a frame; this model takes {spec.max_rows} at most"
        else:
            return None
        self._metrics.count_failed(reason)
        return encode_fail(score.batch_id, score.rows, reason, message)

    def score(self, jobs: Sequence[Job]) -> list[bytes]:
        """One answer (REPLY or FAIL) per job, in order. Raises DevicePoisonedError only.

        If the merged batch fails, each frame is tried alone, so that one sender's bad rows
        don't fail another's.
        """
        try:
            return self._run(jobs)
        except DevicePoisonedError:
            raise
        except Exception as error:  # noqa: BLE001 - a model may raise anything; its frames FAIL
            if len(jobs) > 1:
                return [answer for job in jobs for answer in self.score([job])]
            return [self._fail(jobs[0].score, error)]

    def _fail(self, score: Score, error: Exception) -> bytes:
        reason = "bad_output_shape" if isinstance(error, OutputShapeError) else "model_error"
        self._metrics.count_failed(reason)
        message = f"{type(error).__name__}: {error}"
        return encode_fail(score.batch_id, score.rows, reason, message)

    def _run(self, jobs: Sequence[Job]) -> list[bytes]:
        rows = sum(job.score.rows for job in jobs)
        bucket = bucket_for(rows, self.spec.buckets)
        block = fill(self._buffer, [job.score.block for job in jobs], rows, bucket)
        outputs, start_ns, end_ns = self._timed(block, bucket)
        good = outputs[:rows]
        status, bad = row_status(good)
        replies = self._split(jobs, good, status, (start_ns, end_ns), bucket)
        self._count(jobs, rows, bad, start_ns, end_ns)
        return replies

    def _timed(self, block: Block, bucket: int) -> tuple[Block, int, int]:
        at = self._progress
        start_ns = time.monotonic_ns()
        at.busy_bucket, at.busy_since_ns = bucket, start_ns
        try:
            outputs = checked(self._model.run(block), bucket, self._columns)
        finally:
            end_ns = time.monotonic_ns()
            at.busy_since_ns, at.progress_ns = 0, end_ns
        return outputs, start_ns, end_ns

    def _split(
        self, jobs: Sequence[Job], outputs: Block, status: bytes, span: tuple[int, int], bucket: int
    ) -> list[bytes]:
        start_ns, end_ns = span
        service_us = (end_ns - start_ns) // 1000
        replies, at = [], 0
        for job in jobs:
            score, end = job.score, at + job.score.rows
            replies.append(
                encode_reply(
                    score.batch_id,
                    status[at:end],
                    outputs[at:end].tobytes(),
                    score.row_ids,
                    self._columns,
                    service_us=service_us,
                    queue_us=max(0, start_ns - job.arrived_ns) // 1000,
                    bucket=bucket,
                )
            )
            at = end
        return replies

    def _count(self, jobs: Sequence[Job], rows: int, bad: int, start_ns: int, end_ns: int) -> None:
        metrics = self._metrics
        self._progress.batches += 1
        self._progress.rows += rows
        metrics.bad_rows += bad
        metrics.batch_rows.observe(rows)
        metrics.service_s.observe((end_ns - start_ns) / 1e9)
        for job in jobs:
            metrics.queue_s.observe(max(0, start_ns - job.arrived_ns) / 1e9)
