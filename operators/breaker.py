"""Circuit breaker of one worker: keeps records from waiting on a worker that does not answer.

States and events are in one table; time is an argument.  The breaker counts what it is told and
knows nothing of batches: `batching.py` decides what a failure is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BreakerState(StrEnum):
    """CLOSED passes batches, OPEN passes none, HALF_OPEN passes one as a probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerEvent(StrEnum):
    """What moves the breaker: an answer, a failure, enough failures in a row, the pause's end."""

    SUCCESS = "success"
    FAILURE = "failure"
    TRIPPED = "tripped"
    COOLED = "cooled"


TRANSITIONS: dict[tuple[BreakerState, BreakerEvent], BreakerState] = {
    (BreakerState.CLOSED, BreakerEvent.SUCCESS): BreakerState.CLOSED,
    (BreakerState.CLOSED, BreakerEvent.FAILURE): BreakerState.CLOSED,
    (BreakerState.CLOSED, BreakerEvent.TRIPPED): BreakerState.OPEN,
    (BreakerState.CLOSED, BreakerEvent.COOLED): BreakerState.CLOSED,
    (BreakerState.OPEN, BreakerEvent.SUCCESS): BreakerState.OPEN,
    (BreakerState.OPEN, BreakerEvent.FAILURE): BreakerState.OPEN,
    (BreakerState.OPEN, BreakerEvent.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, BreakerEvent.COOLED): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.SUCCESS): BreakerState.CLOSED,
    (BreakerState.HALF_OPEN, BreakerEvent.FAILURE): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.TRIPPED): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, BreakerEvent.COOLED): BreakerState.HALF_OPEN,
}


@dataclass(slots=True)
class Breaker:
    """Opens after ``failures`` in a row for ``open_ms``, then lets one probe through."""

    failures: int
    open_ms: float
    state: BreakerState = BreakerState.CLOSED
    in_a_row: int = 0
    open_until_ms: float = 0.0

    def allows(self, now_ms: float, in_flight: int) -> bool:
        """Whether a batch may be sent now, with ``in_flight`` batches already out."""
        if self.state is BreakerState.OPEN and now_ms >= self.open_until_ms:
            self._move(BreakerEvent.COOLED, now_ms)
        if self.state is BreakerState.HALF_OPEN:
            return in_flight == 0
        return self.state is BreakerState.CLOSED

    def success(self, now_ms: float) -> None:
        """A batch was answered."""
        self.in_a_row = 0
        self._move(BreakerEvent.SUCCESS, now_ms)

    def failure(self, now_ms: float) -> None:
        """A batch was lost, or no row of it could be scored."""
        self.in_a_row += 1
        tripped = self.in_a_row >= self.failures
        self._move(BreakerEvent.TRIPPED if tripped else BreakerEvent.FAILURE, now_ms)

    def _move(self, event: BreakerEvent, now_ms: float) -> None:
        before, self.state = self.state, TRANSITIONS[self.state, event]
        if self.state is BreakerState.OPEN and before is not BreakerState.OPEN:
            self.open_until_ms = now_ms + self.open_ms
