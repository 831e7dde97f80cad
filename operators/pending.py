"""A lane frame on its way: which of its rows are answered, and what leaves when all are.

Pure.  A frame is finished when every row has its answer; only then are its records for Kafka
built and its state cleared, so that a crash before that replays the frame whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from operators.answers import ModelIdentity
from operators.dead_letter import Origin, dead_letter
from operators.errors import RecordError
from operators.feature_log import encode_features
from operators.frames import append_headers, encode_headers, encode_out
from operators.records import LaneFrame
from tidemill.contracts import (
    CALLBACK_PENDING,
    HEADER_CALLBACK,
    HEADER_CONTROL_VERSION,
    HEADER_MODEL_VERSION,
    DeadLetterReason,
)

ROUTE_RESULTS: Final = 0
ROUTE_DEAD_LETTERS: Final = 1
ROUTE_FEATURES: Final = 2


@dataclass(slots=True)
class PendingFrame:
    """``lane`` is the lane's key as Flink knows it, ``id`` the frame's key in the lane's state.

    ``model_version`` is the version that scored its rows last, if any.
    """

    lane: Any
    id: int
    number: int
    frame: LaneFrame
    control_version: int
    frozen: tuple[str, ...]
    model_version: str | None = None
    answers: list[bytes | None] = field(init=False)
    unsent: set[int] = field(default_factory=set)
    dead: list[tuple[int, str, str]] = field(default_factory=list)
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = len(self.frame.tasks)
        self.answers = [None] * self.left

    def answer(self, rows: Sequence[int], values: Sequence[bytes], *, delivered: bool) -> None:
        """Store the answers of ``rows``; not delivered = the relay owes them to the callers.

        Raises RuntimeError if a row has an answer already.
        """
        for row, value in zip(rows, values, strict=True):
            if self.answers[row] is not None:
                raise RuntimeError(
                    f"row {row} of frame {self.id} (task {self.frame.tasks[row]}) is answered "
                    f"twice; each row has to leave the batching logic once"
                )
            self.answers[row] = value
        self.left -= len(rows)
        if not delivered:
            self.unsent.update(rows)


@dataclass(frozen=True, slots=True)
class FinishedFrame:
    """Out frames (`frames.encode_out`) for the sinks, each with the route of its topic."""

    lane: Any
    id: int
    out: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Finisher:
    """Builds what leaves for Kafka; ``dlq_max_bytes`` is the largest dead letter."""

    model: ModelIdentity
    topic: str
    group: str
    schema_id: str
    feature_count: int
    dlq_max_bytes: int

    def finish(self, pending: PendingFrame) -> FinishedFrame:
        """The records of a frame whose rows are all answered."""
        out = [self._results(pending)]
        if pending.dead:
            out.append(self._dead_letters(pending))
        scored = [row for row, decided in enumerate(pending.frame.decided) if decided is None]
        if scored:
            out.append(self._features(pending, scored))
        return FinishedFrame(pending.lane, pending.id, tuple(out))

    def _results(self, pending: PendingFrame) -> bytes:
        frame = pending.frame
        common: list[tuple[str, bytes | None]] = [
            (HEADER_MODEL_VERSION, (pending.model_version or self.model.version).encode()),
            (HEADER_CONTROL_VERSION, b"%d" % pending.control_version),
        ]
        sent = encode_headers(common)[2:]
        owed = encode_headers([*common, (HEADER_CALLBACK, CALLBACK_PENDING)])[2:]
        blobs: list[bytes] = []
        key_lens: list[int] = []
        header_lens: list[int] = []
        value_lens: list[int] = []
        unsent = pending.unsent
        for row, (key, headers, value) in enumerate(
            zip(frame.keys, frame.headers, pending.answers, strict=True)
        ):
            if value is None:
                raise RuntimeError(f"frame {pending.id} was finished with row {row} unanswered")
            if row in unsent:
                headers = append_headers(headers, owed, len(common) + 1)
            else:
                headers = append_headers(headers, sent, len(common))
            key_lens.append(-1 if key is None else len(key))
            header_lens.append(len(headers))
            value_lens.append(len(value))
            blobs.append((key or b"") + headers + value)
        return encode_out(frame.event_ms, key_lens, header_lens, value_lens, blobs)

    def _dead_letters(self, pending: PendingFrame) -> bytes:
        frame = pending.frame
        stamps: list[int] = []
        key_lens: list[int] = []
        header_lens: list[int] = []
        value_lens: list[int] = []
        blobs: list[bytes] = []
        for row, reason, message in pending.dead:
            key, headers = frame.keys[row], frame.headers[row]
            event_ms = frame.event_ms[row]
            origin = Origin(
                self.topic, frame.partition, frame.offsets[row], event_ms, self.group, "score",
                frame.attempts[row],
            )  # fmt: skip
            error = RecordError(DeadLetterReason(reason), message)
            extra, count, value = dead_letter(
                origin, error, key, headers, frame.values[row], self.dlq_max_bytes
            )
            headers = append_headers(headers, extra, count)
            stamps.append(-1)
            key_lens.append(-1 if key is None else len(key))
            header_lens.append(len(headers))
            value_lens.append(-1 if value is None else len(value))
            blobs.append((key or b"") + headers + (value or b""))
        return encode_out(stamps, key_lens, header_lens, value_lens, blobs, ROUTE_DEAD_LETTERS)

    def _features(self, pending: PendingFrame, rows: list[int]) -> bytes:
        value = encode_features(
            pending.frame, rows, self.feature_count, self.schema_id, pending.control_version
        )
        key = b"%d" % pending.frame.partition
        headers = encode_headers([])
        stamp = max(pending.frame.event_ms[row] for row in rows)
        lengths = [len(key)], [len(headers)], [len(value)]
        return encode_out([stamp], *lengths, [key + headers + value], ROUTE_FEATURES)
