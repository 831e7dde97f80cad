"""What the live view shows: counts so far, stages of the last seconds, the newest answers. Pure."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from deploy.demo.numbers import percentiles
from tidemill.answer import Answer
from tidemill.stages import STAGES, where_time_went

RECENT_ANSWERS: Final = 2000  # percentiles are of so many: the last seconds
NEWEST: Final = 6
RATE_WINDOW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer as a line."""

    task: str
    status: str
    tier: str
    value: float | None
    label: float | None
    total_ms: float


@dataclass(slots=True)
class Live:
    """Fed with answers as they are heard. Times in seconds of the monotonic clock."""

    sent: int = 0
    answered: int = 0
    in_sla: int = 0
    late: int = 0
    errors: int = 0
    dead_letters: int = 0
    tiers: Counter[str] = field(default_factory=Counter)
    newest: deque[Shown] = field(default_factory=lambda: deque(maxlen=NEWEST))
    _stages: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=RECENT_ANSWERS))
    _answered_at: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, answer: Answer, sent_ms: float, heard_ms: float, label: float | None) -> None:
        """Take an answer over."""
        self.answered += 1
        self.in_sla += answer.in_sla
        self.late += answer.status == "late"
        self.errors += answer.status == "error"
        self.tiers[answer.tier] += 1
        stages = where_time_went(answer, sent_ms, heard_ms)
        if answer.ok:
            self._stages.append(stages)
        self.newest.append(
            Shown(answer.task, answer.status, answer.tier, answer.value, label, stages["total"])
        )

    def rate(self, now_s: float) -> float:
        """Answers a second over the last seconds; call it now and then."""
        self._answered_at.append((now_s, self.answered))
        while now_s - self._answered_at[0][0] > RATE_WINDOW_S and len(self._answered_at) > 2:
            self._answered_at.popleft()
        (then_s, before), (_, now) = self._answered_at[0], self._answered_at[-1]
        return (now - before) / (now_s - then_s) if now_s > then_s else 0.0

    def recent_p99(self, answers: int) -> float | None:
        """p99 in ms, from sending to hearing, of the last ``answers`` with a score; None if fewer."""
        if len(self._stages) < answers:
            return None
        return percentiles([stages["total"] for stages in list(self._stages)[-answers:]])[1]

    def stages(self) -> dict[str, tuple[float | None, float | None]]:
        """p50 and p99 of each stage, in ms, of the answers with a score.

        Rounding of the job's whole milliseconds may make a short stage negative: shown as 0.
        """
        return {
            name: percentiles([max(0.0, stages[name]) for stages in self._stages])
            for name in STAGES
        }
