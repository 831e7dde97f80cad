"""Late records: what is said about them, to their caller and in the late topic.

Whether a record is late was decided against the watermark as it stood when it arrived; nothing
here compares clocks again.
"""

from __future__ import annotations

from operators.frames import encode_headers
from operators.records import Decision
from tidemill.contracts import LATE_HEADERS, Status

LATE = "late"  # the reason of the answer, and its label in counts


def lateness_ms(ts_ms: int, watermark_ms: int) -> int:
    """How far a record lies behind the watermark."""
    return watermark_ms - ts_ms


def late_decision(ts_ms: int, watermark_ms: int) -> Decision:
    """The answer owed to a late record's caller."""
    behind_ms = lateness_ms(ts_ms, watermark_ms)
    message = (
        f"the event's time {ts_ms} is {behind_ms} ms behind the watermark {watermark_ms}: send"
        " sooner, or raise job.out_of_orderness_ms"
    )
    return Status.LATE.value, LATE, message


def late_headers(ts_ms: int, watermark_ms: int, topic: str, partition: int, offset: int) -> bytes:
    """The headers that a late record gets, encoded without their count (LATE_HEADERS of them)."""
    values = (lateness_ms(ts_ms, watermark_ms), watermark_ms, topic, partition, offset)
    pairs = [(n, str(v).encode()) for n, v in zip(LATE_HEADERS, values, strict=True)]
    return encode_headers(list(pairs))[2:]
