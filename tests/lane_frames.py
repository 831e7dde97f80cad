"""Lane frames for tests of what comes after decoding."""

from __future__ import annotations

import numpy as np

from operators.frames import encode_headers
from operators.records import Decision, LaneFrame


def lane_frame(
    rows: int,
    *,
    width: int = 2,
    deadline_ms: int = 2_000,
    arrival_ms: int = 1_500,
    decided: dict[int, Decision] | None = None,
    prefix: str = "task",
) -> LaneFrame:
    """``rows`` rows whose fields differ: task ``task-<row>``, features row and row + 0.5, ..."""
    block = np.arange(rows, dtype=np.float32)[:, None] + np.arange(width, dtype=np.float32) / 2
    chosen = decided or {}
    return LaneFrame(
        partition=2,
        first_arrival_ms=arrival_ms,
        tasks=[f"{prefix}-{row}" for row in range(rows)],
        attempts=[1] * rows,
        event_ms=[1_000 + row for row in range(rows)],
        offsets=[40 + row for row in range(rows)],
        deadlines=[deadline_ms + row for row in range(rows)],
        keys=[None if row % 3 == 2 else b"key-%d" % row for row in range(rows)],
        headers=[encode_headers([("source", b"s%d" % row)]) for row in range(rows)],
        reply_to=[None] * rows,
        block=block.tobytes(),
        decided=[chosen.get(row) for row in range(rows)],
        values=[b'{"row":%d}' % row for row in range(rows)],
    )
