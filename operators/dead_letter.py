"""Dead letters: the record that leaves, and the guard that stops a job which makes too many.

A dead letter keeps key, value and headers byte for byte and gets `x-dlq.` headers.  Its timestamp
is the time it is written, so that retention counts from then; the record's own is in a header.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from operators.errors import RecordError, StopJob
from operators.frames import encode_headers
from tidemill.contracts import DLQ_HEADERS, DLQ_PREFIX

TRUNCATED_HEADER: Final = DLQ_PREFIX + "truncated-bytes"
_MESSAGE_BYTES: Final = 512  # of a header's message: the letter must stay sendable
_RECORD_OVERHEAD_BYTES: Final = 256  # of Kafka, around key, headers and value


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record came from, and who gave it up at which stage."""

    topic: str
    partition: int
    offset: int
    ts_ms: int
    group: str
    stage: str
    attempts: int


def dead_letter(
    origin: Origin,
    error: RecordError,
    key: bytes | None,
    headers: bytes,
    value: bytes | None,
    max_bytes: int,
) -> tuple[bytes, int, bytes | None]:
    """Extra headers (encoded without their count), how many, and the value to send.

    The value is cut only if the whole letter would be over ``max_bytes``; a header says by how many
    bytes.
    """
    message = error.message.encode()[:_MESSAGE_BYTES].decode(errors="ignore")
    values = (
        origin.topic, origin.partition, origin.offset, origin.ts_ms, origin.group, origin.stage,
        error.reason.value, message, origin.attempts,
    )  # fmt: skip
    pairs: list[tuple[str, bytes | None]] = [
        (name, str(v).encode()) for name, v in zip(DLQ_HEADERS, values, strict=True)
    ]
    extra = encode_headers(pairs)[2:]
    size = len(key or b"") + len(headers) + len(extra) + len(value or b"") + _RECORD_OVERHEAD_BYTES
    if value is None or size <= max_bytes:
        return extra, len(pairs), value
    kept = max(0, len(value) - (size - max_bytes))
    cut = [(TRUNCATED_HEADER, str(len(value) - kept).encode())]
    return extra + encode_headers(list(cut))[2:], len(pairs) + 1, value[:kept]


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """At most ``limit`` (a share) of the last ``min_rows`` rows within ``window_ms`` may be dead."""

    limit: float
    min_rows: int
    window_ms: int = 600_000

    def __post_init__(self) -> None:
        if not 0.0 <= self.limit <= 1.0 or self.min_rows < 1 or self.window_ms < 1:
            raise ValueError(f"{self}: the limit is a share from 0 to 1, the others are at least 1")


@dataclass(slots=True)
class DeadLetterGuard:
    """Raises StopJob when most of what arrives is unusable: then the schema is wrong, not a row."""

    policy: GuardPolicy
    _frames: deque[tuple[int, int, Mapping[str, int]]] = field(default_factory=deque)
    _rows: int = 0
    _reasons: Counter[str] = field(default_factory=Counter)

    def observe(self, rows: int, dead: Mapping[str, int], now_ms: int) -> None:
        """Take ``rows`` just seen, of them ``dead`` by reason.  Raises StopJob over the limit."""
        self._frames.append((now_ms, rows, dead))
        self._rows += rows
        self._reasons.update(dead)
        while self._rows - self._frames[0][1] >= self.policy.min_rows or (
            now_ms - self._frames[0][0] > self.policy.window_ms
        ):
            self._drop()
        share = self.share
        if self._rows >= self.policy.min_rows and share > self.policy.limit:
            raise StopJob(self._message(share))

    @property
    def share(self) -> float:
        """Dead share of the rows in the window; 0 if it is empty."""
        return self._reasons.total() / self._rows if self._rows else 0.0

    def _drop(self) -> None:
        _, rows, dead = self._frames.popleft()
        self._rows -= rows
        self._reasons.subtract(dead)

    def _message(self, share: float) -> str:
        top = ", ".join(f"{reason} {n}" for reason, n in self._reasons.most_common(3) if n)
        return (
            f"{share:.1%} of the last {self._rows} records are dead letters, the limit is"
            f" {self.policy.limit:.1%} (job.dead_letter_limit); most: {top}. Look at them with"
            " `tidemill dlq list`, fix the producer or the event mapping, then submit again"
        )
