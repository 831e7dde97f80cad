"""Frames in, replies out: merge, pad, run, check, split. The part of a worker without sockets.

Decides: what each frame is answered. Must not know: connections, torch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from models.merge import Block, Buffer, OutputShapeError, bucket_for, checked, row_status
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


class Job(NamedTuple):
    """One SCORE frame that waits. `source` = who gets the answer; `arrived_ns` = seen at, monotonic."""

    source: int
    score: Score
    arrived_ns: int
    rows: int


class _Batch(NamedTuple):
    """What was computed, kept until it is counted."""

    jobs: Sequence[Job]
    rows: int
    bad_rows: int
    start_ns: int
    end_ns: int


class Engine:
    """Scores batches of jobs with one model. Not thread-safe: it belongs to the model's thread."""

    def __init__(self, spec: ModelSpec, model: BatchModel, metrics: WorkerMetrics) -> None:
        self.spec = spec
        self._model = model
        self._metrics = metrics
        self._progress = metrics.progress
        self._columns = len(spec.outputs)
        self._buffer = Buffer(spec.max_rows, len(spec.features))
        self._uncounted: list[_Batch] = []

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

    def settle(self) -> None:
        """Count what was scored since the last call: after the answers are sent, they don't wait."""
        metrics, at = self._metrics, self._progress
        for batch in self._uncounted:
            at.batches += 1
            at.rows += batch.rows
            metrics.bad_rows += batch.bad_rows
            metrics.batch_rows.observe(batch.rows)
            metrics.service_s.observe((batch.end_ns - batch.start_ns) / 1e9)
            for job in batch.jobs:
                metrics.queue_s.observe((batch.start_ns - job.arrived_ns) / 1e9)
        self._uncounted.clear()

    def _run(self, jobs: Sequence[Job]) -> list[bytes]:
        rows = sum([job.rows for job in jobs])
        bucket = bucket_for(rows, self.spec.buckets)
        block = self._buffer.fill([job.score.block for job in jobs], bucket)
        at = self._progress
        at.busy_bucket, at.busy_since_ns = bucket, (start_ns := time.monotonic_ns())
        try:
            outputs = checked(self._model.run(block), bucket, self._columns)
        finally:
            at.busy_since_ns, at.progress_ns = 0, (end_ns := time.monotonic_ns())
        good = outputs[:rows]
        status, bad_rows = row_status(good)
        self._uncounted.append(_Batch(jobs, rows, bad_rows, start_ns, end_ns))
        return self._split(jobs, good.tobytes(), status, start_ns, end_ns, bucket)

    def _split(
        self,
        jobs: Sequence[Job],
        outputs: bytes,
        status: bytes,
        start_ns: int,
        end_ns: int,
        bucket: int,
    ) -> list[bytes]:
        columns, service_us = self._columns, (end_ns - start_ns) // 1000
        size = 4 * columns
        replies, at = [], 0
        for _, score, arrived_ns, rows in jobs:
            end = at + rows
            replies.append(
                encode_reply(
                    score.batch_id,
                    status[at:end],
                    outputs[at * size : end * size],
                    score.row_ids,
                    columns,
                    service_us=service_us,
                    queue_us=(start_ns - arrived_ns) // 1000,
                    bucket=bucket,
                )
            )
            at = end
        return replies
