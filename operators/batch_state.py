"""What batching is configured with (`BatchPolicy`) and what changes while it runs (`BatchState`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from operators.batch_types import Chunk
from operators.service_time import ServiceTimes


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """What is configured.  All times in ms; ``fallback`` says whether a rule tier exists."""

    max_rows: int = 256
    margin_ms: float = 2.0
    hop_ms: float = 1.0
    credits: int = 2
    stall_factor: float = 5.0
    stall_floor_ms: float = 250.0
    breaker_failures: int = 3
    breaker_open_ms: float = 1000.0
    max_pending_rows: int = 8192
    fallback: bool = True

    def __post_init__(self) -> None:
        for name in ("max_rows", "credits", "breaker_failures", "max_pending_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"batch.{name} is {getattr(self, name)}; it must be at least 1")
        if self.stall_factor <= 1:
            raise ValueError(f"batch.stall_factor is {self.stall_factor}; it must be above 1")


@dataclass(slots=True)
class InFlight:
    """A batch at the worker; ``parts`` are the rows that still wait for its reply."""

    chunks: tuple[Chunk, ...]
    parts: list[tuple[Chunk, Sequence[int]]]
    rows: int
    sent_ms: float
    expected_ms: float
    first_deadline_ms: float


@dataclass(slots=True)
class BatchState:
    """Everything that changes.  Rebuilt from the lane's pending frames after a restart."""

    queue: list[tuple[float, int, Chunk]] = field(default_factory=list)
    isolated: deque[tuple[Chunk, ...]] = field(default_factory=deque)
    in_flight: dict[int, InFlight] = field(default_factory=dict)
    groups: dict[int, list[int]] = field(default_factory=dict)
    times: ServiceTimes | None = None
    worker_rows: int = 0
    queued_rows: int = 0
    next_id: int = 0
    busy_since_ms: float = 0.0
