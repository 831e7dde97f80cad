"""Contract: each frame gets one answer, in order; one frame's fault is no other frame's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from models.engine import DevicePoisonedError, Engine, Job
from models.load import CallableModel
from models.merge import Block
from models.messages import Fail, Message, Reply, Score
from models.metrics import WorkerMetrics
from models.progress import Progress
from models.spec import FeatureSpec, ModelSpec, OutputSpec
from models.wire import Decoder, encode_score

SPEC = ModelSpec(
    "sum", "1", (FeatureSpec("a", default=0), FeatureSpec("b", default=0)), (OutputSpec("y"),),
    buckets=(1, 4, 8), max_rows=8, kind="callable", function="unused:unused",
)  # fmt: skip


def _total(block: Block) -> Block:
    return np.asarray(block.sum(axis=1, keepdims=True), np.float32)


def _engine(function: Callable[[Block], object] = _total) -> tuple[Engine, WorkerMetrics]:
    metrics = WorkerMetrics(Progress("sum", "1"))
    return Engine(SPEC, CallableModel(function), metrics), metrics


def _job(batch_id: int, *rows: tuple[float, float], width: int = 2) -> Job:
    block = np.array(rows, np.float32)[:, :width]
    ids = np.arange(len(rows), dtype=np.uint32) + 100 * batch_id
    raw = encode_score(batch_id, block.tobytes(), len(rows), 4 * width, 0, ids.tobytes())
    (score,) = Decoder().feed(raw)
    assert isinstance(score, Score)
    return Job(1, score, 0, score.rows)


def _read(answers: list[bytes]) -> list[Message]:
    return Decoder().feed(b"".join(answers))


def _values(reply: Message) -> list[float]:
    assert isinstance(reply, Reply)
    values: list[float] = np.frombuffer(reply.outputs, np.float32).tolist()
    return values


def test_each_frame_gets_its_own_rows_back() -> None:
    engine, metrics = _engine()
    first, second = _read(engine.score([_job(1, (1, 2), (3, 4)), _job(2, (5, 6))]))
    assert (_values(first), _values(second)) == ([3, 7], [11])
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert (first.batch_id, second.batch_id, first.bucket) == (1, 2, 4)
    assert np.frombuffer(second.row_ids, np.uint32).tolist() == [200]
    assert metrics.progress.batches == 0
    engine.settle()
    engine.settle()
    assert (metrics.progress.batches, metrics.progress.rows) == (1, 3)


def test_a_row_that_is_not_finite_is_marked_alone() -> None:
    engine, _ = _engine()
    first, second = _read(engine.score([_job(1, (1, 2), (np.inf, 4)), _job(2, (5, 6))]))
    assert isinstance(first, Reply)
    assert isinstance(second, Reply)
    assert (bytes(first.status), bytes(second.status)) == (b"\0\1", b"\0")


def test_a_failing_frame_fails_alone() -> None:
    def picky(block: Block) -> Block:
        if (block == 13).any():
            raise RuntimeError("thirteen")
        return _total(block)

    engine, metrics = _engine(picky)
    answers = _read(engine.score([_job(1, (1, 1)), _job(2, (13, 0)), _job(3, (2, 2))]))
    assert [type(answer) for answer in answers] == [Reply, Fail, Reply]
    assert answers[1] == Fail(2, 1, "model_error", "RuntimeError: thirteen")
    assert (_values(answers[0]), _values(answers[2])) == ([2], [4])
    assert metrics.failed == {"model_error": 1}
    assert metrics.progress.busy_since_ns == 0


def test_a_wrong_number_of_outputs_is_never_answered() -> None:
    engine, _ = _engine(lambda block: block[:-1, :1])
    (fail,) = _read(engine.score([_job(1, (1, 1), (2, 2))]))
    assert isinstance(fail, Fail)
    assert fail.reason == "bad_output_shape"


def test_a_broken_device_ends_the_worker_instead_of_failing_frames() -> None:
    def broken(_: Block) -> Block:
        raise DevicePoisonedError("illegal memory access")

    engine, _ = _engine(broken)
    with pytest.raises(DevicePoisonedError):
        engine.score([_job(1, (1, 1)), _job(2, (1, 1))])


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (_job(1, (1, 1), width=1), "wrong_row_bytes"),
        (_job(1, *[(1, 1)] * 9), "too_many_rows"),
    ],
)
def test_a_frame_that_does_not_fit_the_model_is_refused(job: Job, reason: str) -> None:
    engine, _ = _engine()
    refusal = engine.refusal(job.score)
    assert refusal is not None
    (fail,) = _read([refusal])
    assert isinstance(fail, Fail)
    assert fail.reason == reason
    assert engine.refusal(_job(1, (1, 1)).score) is None
