"""Results as the job writes them, for the tests of those who read them."""

from __future__ import annotations

from typing import Any

import orjson

from tidemill.contracts import RESULT_FIELDS

BASE: dict[str, Any] = {
    "v": 1,
    "task": "t",
    "attempt": 1,
    "status": "ok",
    "tier": "full",
    "outputs": {"eta_min": 12.5},
    "reason": None,
    "message": None,
    "model": "eta",
    "model_version": "3",
    "control_version": 0,
    "frozen": [],
    "event_ms": 1_000,
    "ingest_ms": 2_000,
    "done_ms": 2_010,
    "deadline_ms": 2_200,
    "queue_ms": 1.5,
    "service_ms": 2.5,
    "partition": 0,
    "offset": 7,
}
assert tuple(BASE) == RESULT_FIELDS


def result(task: str, **changes: Any) -> bytes:
    """A result JSON of ``task``."""
    return orjson.dumps(BASE | {"task": task} | changes)
