"""What agent and worker say to each other, as values; `models.wire` turns them into bytes.

Decides: the fields of the five kinds. Must not know: bytes, sockets, torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

PROTOCOL = 1


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    SCORE = 2
    REPLY = 3
    FAIL = 4
    DRAIN = 5


class RowStatus(IntEnum):
    """One byte a row of a REPLY."""

    OK = 0
    NON_FINITE_OUTPUT = 1
    MODEL_ERROR = 2


class WireError(ValueError):
    """The peer sent bytes that are no frame of this protocol: drop the connection."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What a worker serves. `service_us` = measured time of one batch of each bucket, without queue."""

    model: str
    version: str
    features: list[str]
    outputs: list[str]
    buckets: list[int]
    service_us: dict[int, int]
    max_rows: int
    credits: int
    schema_id: str = ""
    protocol: int = PROTOCOL


class Score(NamedTuple):
    """Rows to be scored. `budget_ns` = what remained of the head's deadline when it was sent."""

    batch_id: int
    rows: int
    row_bytes: int
    budget_ns: int
    block: memoryview
    row_ids: memoryview


class Reply(NamedTuple):
    """Answer to one SCORE, same batch id, same rows in the same order.

    `status`: one RowStatus byte a row; `outputs`: float32, rows x out_dim; `row_ids`: u32, as sent.
    `service_us`: the model's time for the merged batch of `bucket` rows that held this frame;
    `queue_us`: at most how long the frame waited in the worker before it.
    """

    batch_id: int
    rows: int
    out_dim: int
    service_us: int
    queue_us: int
    bucket: int
    status: memoryview
    outputs: memoryview
    row_ids: memoryview


@dataclass(frozen=True, slots=True)
class Fail:
    """The whole batch failed; nothing of it was scored."""

    batch_id: int
    rows: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Drain:
    """The worker takes no new batches."""


Message = Hello | Score | Reply | Fail | Drain
