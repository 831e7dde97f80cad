"""What the drift loop says of a window: the value of a record of the report and of the alert topic."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from drift.evaluate import Stats
from drift.events import Event
from drift.explain import explain
from drift.judge import Judgement
from drift.reference import Reference
from drift.states import Status

REPORT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Report:
    """One window.  ``stats`` is None if it had no rows; the lists go by feature in order."""

    begin_ms: int
    end_ms: int
    reference_id: str
    stats: Stats | None
    verdicts: tuple[Judgement, ...]
    statuses: tuple[Status, ...]
    events: tuple[Event, ...]
    stream_broken: bool
    expired_rows: int
    """Rows so far that came after the window had left their pane."""

    def encode(self, reference: Reference) -> bytes:
        """JSON, equal bytes for equal reports; numbers that don't exist are null."""
        features = [self._feature(i, name, reference) for i, name in enumerate(reference.names)]
        return orjson.dumps(
            {
                "v": REPORT_VERSION,
                "begin_ms": self.begin_ms,
                "end_ms": self.end_ms,
                "model": reference.model,
                "model_version": reference.version,
                "reference": self.reference_id,
                "rows": self.stats.rows if self.stats else 0,
                "expired_rows": self.expired_rows,
                "stream_broken": self.stream_broken,
                "features": features,
                "events": [event_data(event) for event in self.events],
            }
        )

    def _feature(self, i: int, name: str, reference: Reference) -> dict[str, Any]:
        verdict = self.verdicts[i]
        data: dict[str, Any] = {
            "feature": name,
            "status": self.statuses[i].value,
            "level": verdict.level.value,
            "reasons": list(verdict.reasons),
            "min_rows": verdict.min_rows if math.isfinite(verdict.min_rows) else None,
        }
        if self.stats is not None:
            data |= asdict(explain(self.stats, reference, i))
        return data


def event_data(event: Event) -> dict[str, Any]:
    """An event as JSON data, the value of a record of the alert topic."""
    return {"v": REPORT_VERSION, **asdict(event)}
