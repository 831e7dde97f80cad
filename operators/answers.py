"""From scored or decided rows to the bytes of their answers.

Decides the bytes of the result JSON (fields and order of `tidemill.contracts.RESULT_FIELDS`).
One template a group of rows holds all that they share, so that a row costs one formatting step;
task ids need no escaping, because the contract admits no character that would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from operators.records import LaneFrame
from tidemill.contracts import RESULT_VERSION, Status, Tier

_NO_OUTPUTS = b"null"


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model an answer names; ``outputs`` are the names of its output columns."""

    name: str
    version: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What rows that end the same way share.  Times in ms, as spent by the group's batch.

    ``model_version`` is the version that scored them; None = the one that the job was made for.
    """

    status: Status
    tier: Tier
    reason: str | None = None
    message: str | None = None
    queue_ms: float = 0.0
    service_ms: float = 0.0
    model_version: str | None = None


def encode_answers(
    frame: LaneFrame,
    rows: Sequence[int],
    verdict: Verdict,
    outputs: NDArray[np.float32] | None,
    model: ModelIdentity,
    control: tuple[int, tuple[str, ...]],
    done_ms: int,
) -> list[bytes]:
    """The result JSON of each of ``rows``.

    ``outputs`` is float32 [len(rows), len(model.outputs)] and finite, or None for rows without a
    score; ``control`` is the control version and the frozen features they were scored under.
    Raises ValueError if the shape of ``outputs`` is another one: an answer must never be given to
    the wrong row.
    """
    template = _template(frame, verdict, model, control, done_ms)
    numbers = _numbers(outputs, len(rows), model.outputs)
    tasks, attempts = frame.tasks, frame.attempts
    event_ms, deadlines, offsets = frame.event_ms, frame.deadlines, frame.offsets
    return [
        template % (tasks[r].encode(), attempts[r], number, event_ms[r], deadlines[r], offsets[r])
        for r, number in zip(rows, numbers, strict=True)
    ]


def _template(
    frame: LaneFrame,
    verdict: Verdict,
    model: ModelIdentity,
    control: tuple[int, tuple[str, ...]],
    done_ms: int,
) -> bytes:
    def text(value: object) -> bytes:
        return orjson.dumps(value).replace(b"%", b"%%")

    return b"".join(
        (
            b'{"v":%d,"task":"%%b","attempt":%%d,"status":"' % RESULT_VERSION,
            verdict.status.encode(),
            b'","tier":"',
            verdict.tier.encode(),
            b'","outputs":%b,"reason":',
            text(verdict.reason),
            b',"message":',
            text(verdict.message),
            b',"model":',
            text(model.name),
            b',"model_version":',
            text(verdict.model_version or model.version),
            b',"control_version":%d,"frozen":' % control[0],
            text(control[1]),
            b',"event_ms":%d,"ingest_ms":',
            b"%d" % frame.first_arrival_ms,
            b',"done_ms":%d' % done_ms,
            b',"deadline_ms":%d,"queue_ms":',
            b"%.3f" % verdict.queue_ms,
            b',"service_ms":%.3f,"partition":%d' % (verdict.service_ms, frame.partition),
            b',"offset":%d}',
        )
    )


def _numbers(
    outputs: NDArray[np.float32] | None, rows: int, names: tuple[str, ...]
) -> Sequence[bytes]:
    if outputs is None:
        return [_NO_OUTPUTS] * rows
    if outputs.shape != (rows, len(names)):
        raise ValueError(
            f"outputs have shape {outputs.shape}, expected {(rows, len(names))}: the model and "
            f"its spec disagree; check the spec's outputs {names}"
        )
    flat = np.ascontiguousarray(outputs, dtype=np.float32).reshape(-1)
    texts = orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    shape = b"{" + b",".join(orjson.dumps(name) + b":%b" for name in names) + b"}"
    if len(names) == 1:
        return [shape % number for number in texts]
    width = len(names)
    return [shape % tuple(texts[i : i + width]) for i in range(0, len(texts), width)]
