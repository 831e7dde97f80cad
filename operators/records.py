"""The lane frame: the rows of one batch frame that are owed an answer, as columns.

It crosses from the decoder to the lanes and lies in keyed state until each row is answered, so it
has a codec and a version.  Must not know: Flink, Kafka, how a row is decoded or scored.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tidemill.errors import ContractError

LANE_FRAME_VERSION: Final = 2
_READABLE: Final = (1, 2)  # 1 had no schema id
# The format is pinned: a checkpoint written by one Python has to be read by the next.
_MARSHAL_FORMAT: Final = 4

Decision = tuple[str, str, str]
"""Status, reason and message of a row that is answered without being scored."""


@dataclass(slots=True)
class LaneFrame:
    """Rows of one partition in offset order; every list has one entry a row.

    ``block`` is float32, row-major, with zeros in rows that are already decided.  ``headers`` are
    the blobs as received.  ``deadlines``, ``event_ms`` and ``first_arrival_ms`` are epoch ms; a
    record without a usable time has its arrival as ``event_ms``.
    """

    partition: int
    first_arrival_ms: int
    tasks: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    event_ms: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    deadlines: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    reply_to: list[str | None] = field(default_factory=list)
    block: bytes = b""
    decided: list[Decision | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    schema_id: str = ""

    def __len__(self) -> int:
        return len(self.tasks)

    def select(self, rows: Sequence[int]) -> LaneFrame:
        """A frame of only these rows, in this order."""
        width = len(self.block) // len(self) if len(self) else 0
        return LaneFrame(
            self.partition,
            self.first_arrival_ms,
            [self.tasks[i] for i in rows],
            [self.attempts[i] for i in rows],
            [self.event_ms[i] for i in rows],
            [self.offsets[i] for i in rows],
            [self.deadlines[i] for i in rows],
            [self.keys[i] for i in rows],
            [self.headers[i] for i in rows],
            [self.reply_to[i] for i in rows],
            b"".join([self.block[i * width : (i + 1) * width] for i in rows]),
            [self.decided[i] for i in rows],
            [self.values[i] for i in rows],
            self.schema_id,
        )

    def require_schema(self, schema_id: str) -> None:
        """Raises ContractError if the block was packed for other features than ``schema_id``'s."""
        if self.schema_id and self.schema_id != schema_id:
            raise ContractError(
                f"state has rows packed for schema {self.schema_id}, the model's is {schema_id}:"
                " resume with the old model, let the pending rows be answered, stop again, and only"
                " then change the features"
            )

    def encode(self) -> bytes:
        """The frame as bytes, for keyed state."""
        return marshal.dumps(
            (
                LANE_FRAME_VERSION,
                self.partition,
                self.first_arrival_ms,
                self.tasks,
                self.attempts,
                self.event_ms,
                self.offsets,
                self.deadlines,
                self.keys,
                self.headers,
                self.reply_to,
                self.block,
                self.decided,
                self.values,
                self.schema_id,
            ),
            _MARSHAL_FORMAT,
        )

    @classmethod
    def decode(cls, data: bytes) -> LaneFrame:
        """Read ``encode``'s bytes back.  Raises ContractError for bytes of another version.

        Only for bytes of our own state: marshal is not safe on bytes of strangers.
        """
        try:
            version, *columns = marshal.loads(data)  # noqa: S302 - our own checkpointed state
            frame = cls(*columns) if version in _READABLE else None
        except (ValueError, EOFError, TypeError) as error:
            raise ContractError(
                f"lane frame of {len(data)} bytes can't be read ({error}): the state is not from"
                " tidemill; start without it, or from the savepoint that belongs to this job"
            ) from error
        if frame is None:
            raise ContractError(
                f"lane frame has version {version!r}, this program reads {LANE_FRAME_VERSION}:"
                " restore with the release that wrote the savepoint, drain, then upgrade"
            )
        return frame
