"""From a batch frame to what is owed: rows for the lanes, late records, dead letters.

The loop assumes plain rows and only notes the others, which ``RowDecoder`` then judges one by one.
So the common row costs a few microseconds and the rare one gets the exact reason.  Must not know:
Flink, lanes, models.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from operators.dead_letter import Origin, dead_letter
from operators.errors import RecordError
from operators.event_time import event_time_ms
from operators.fast_pack import NOT_PLAIN, RowReader
from operators.frames import BatchFrame, append_headers, encode_out
from operators.headers import HeaderReader
from operators.lateness import LATE, late_decision, late_headers
from operators.mapping import EventMapping, resolve
from operators.records import LaneFrame
from operators.row_decode import (
    FIRST_ATTEMPT,
    ID_BYTES,
    MAX_ATTEMPT_DIGITS,
    MAX_DEADLINE_DIGITS,
    NEEDED_HEADERS,
    DecodePolicy,
    Judged,
    RawRow,
    RowDecoder,
)
from operators.schema import FeatureSchema
from tidemill.contracts import LATE_HEADERS, MAX_ID_CHARS, Status, task_id_for
from tidemill.contracts import DeadLetterReason as Reason

_NOT_PLAIN: Final = (*NOT_PLAIN, RecordError)
_NO_USABLE_TIME: Final = (Reason.MISSING_TIME, Reason.FUTURE_TIMESTAMP)
_NO_TIMESTAMP: Final = -1  # the dead letter gets the time it is written


@dataclass(frozen=True, slots=True)
class DecodedFrame:
    """What one batch frame becomes.  ``counts`` has dead letters by reason, and late rows."""

    lane_frame: LaneFrame | None
    late_out: bytes | None
    dead_out: bytes | None
    counts: dict[str, int]

    @property
    def dead_reasons(self) -> dict[str, int]:
        """Dead letters by reason."""
        return {reason: n for reason, n in self.counts.items() if reason != LATE}


@dataclass(slots=True)
class _OutRows:
    """Rows of an out frame, as columns."""

    ts: list[int] = field(default_factory=list)
    key_lens: list[int] = field(default_factory=list)
    hdr_lens: list[int] = field(default_factory=list)
    val_lens: list[int] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)

    def add(self, ts_ms: int, key: bytes | None, headers: bytes, value: bytes | None) -> None:
        self.ts.append(ts_ms)
        self.key_lens.append(-1 if key is None else len(key))
        self.hdr_lens.append(len(headers))
        self.val_lens.append(-1 if value is None else len(value))
        self.blobs += (key or b"", headers, value or b"")

    def encode(self) -> bytes | None:
        if not self.ts:
            return None
        return encode_out(self.ts, self.key_lens, self.hdr_lens, self.val_lens, self.blobs)


class Decoder:
    """Decodes batch frames of one topic for one model."""

    def __init__(
        self,
        schema: FeatureSchema,
        mapping: EventMapping,
        policy: DecodePolicy,
        topic: str,
        group: str,
    ) -> None:
        self._policy = policy
        self._topic = topic
        self._group = group
        self._mapping = mapping
        self._schema_id = schema.schema_id.encode()
        self._rows = RowDecoder(mapping, policy, topic, schema.schema_id)
        self._reader = RowReader(mapping)
        self._headers = HeaderReader(NEEDED_HEADERS)
        self._row = struct.Struct(f"<{len(schema.features)}f")

    def decode(self, frame: BatchFrame) -> DecodedFrame:
        """Every row leaves: as an answer owed, a late record or a dead letter (or two of these)."""
        lane = LaneFrame(
            frame.partition, frame.first_arrival_ms, schema_id=self._schema_id.decode()
        )
        doubtful = self._read_plain(frame, lane)
        if not doubtful:
            return DecodedFrame(lane if len(lane) else None, None, None, {})
        return self._judge(frame, lane, doubtful)

    def _read_plain(self, frame: BatchFrame, lane: LaneFrame) -> list[int]:
        """Fill ``lane`` with all rows; returns the indices of those that are not plain."""
        lane.event_ms, lane.offsets = list(frame.ts), list(frame.offsets)
        doubtful = set(self._untimely(frame))
        keys, headers, values = lane.keys, lane.headers, lane.values
        tasks, attempts, reply_to = lane.tasks, lane.attempts, lane.reply_to
        deadlines, rows = lane.deadlines, list[bytes]()
        read, read_headers, loads = self._reader.read, self._headers.read, orjson.loads
        max_bytes, sla_deadline = (
            self._policy.max_value_bytes,
            frame.first_arrival_ms + self._policy.sla_ms,
        )
        time_path, zeros = self._mapping.time_path, self._reader.zeros
        data, at = frame.data, frame.start
        lengths = zip(frame.ts, frame.key_lens, frame.hdr_lens, frame.val_lens, strict=True)
        for ts, key_len, hdr_len, val_len in lengths:
            key = data[at : at + key_len] if key_len >= 0 else None
            at += max(key_len, 0)
            blob = data[at : at + hdr_len]
            at += hdr_len
            raw = data[at : at + val_len] if val_len > 0 else b""
            at += max(val_len, 0)
            keys.append(key)
            headers.append(blob)
            values.append(raw if val_len >= 0 else None)
            try:
                if not 0 < val_len <= max_bytes:
                    raise ValueError
                task_id, attempt, deadline, reply, schema_id, event_id = read_headers(blob)
                doc = loads(raw)
                row = read(doc, raw)
                if schema_id is not None and schema_id != self._schema_id:
                    raise ValueError
                if time_path is not None:
                    self._check_time(doc, ts)
                task = self._task(doc, key, event_id) if task_id is None else _plain_id(task_id)
                caller = None if reply is None else _plain_id(reply)
                tries = FIRST_ATTEMPT if attempt is None else _digits(attempt, MAX_ATTEMPT_DIGITS)
                until = sla_deadline if deadline is None else _digits(deadline, MAX_DEADLINE_DIGITS)
            except _NOT_PLAIN:
                doubtful.add(len(rows))
                row, task, caller, tries, until = zeros, "", None, FIRST_ATTEMPT, sla_deadline
            rows.append(row)
            tasks.append(task)
            reply_to.append(caller)
            attempts.append(tries)
            deadlines.append(until)
        lane.decided = [None] * len(rows)
        if rows:
            lane.block, bad = self._reader.finish(rows)
            doubtful.update(bad)
        return sorted(doubtful)

    def _untimely(self, frame: BatchFrame) -> list[int]:
        """Rows that are late, without a time or in the future."""
        if not frame.ts:
            return []
        latest = frame.first_arrival_ms + self._policy.future_limit_ms
        if min(frame.ts) > 0 and max(frame.ts) <= latest and not any(frame.late):
            return []
        late = frame.late
        return [i for i, ts in enumerate(frame.ts) if late[i] or not 0 < ts <= latest]

    def _check_time(self, doc: dict[str, Any], ts_ms: int) -> None:
        path = self._mapping.time_path or ()
        value = doc[path[0]] if len(path) == 1 else resolve(doc, path)
        event_ms = value if type(value) is int else event_time_ms(value, "")
        if event_ms <= 0 or abs(event_ms - ts_ms) > self._policy.time_tolerance_ms:
            raise ValueError

    def _task(self, doc: dict[str, Any], key: bytes | None, event_id: bytes | None) -> str:
        if event_id:
            return task_id_for(None, self._topic, key, event_id.decode())
        found = resolve(doc, self._mapping.id_paths[0])
        if type(found) is not str or not found:
            raise ValueError
        return task_id_for(None, self._topic, key, found)

    def _judge(self, frame: BatchFrame, lane: LaneFrame, doubtful: list[int]) -> DecodedFrame:
        late_out, dead_out = _OutRows(), _OutRows()
        counts: Counter[str] = Counter()
        block, dropped = bytearray(lane.block), set[int]()
        for i in doubtful:
            judged = self._rows.judge(
                RawRow(
                    lane.event_ms[i],
                    lane.keys[i],
                    lane.headers[i],
                    lane.values[i],
                    bool(frame.late[i]),
                    frame.first_arrival_ms,
                )
            )
            row = bytes(self._row.size) if judged.values is None else self._row.pack(*judged.values)
            block[i * self._row.size : (i + 1) * self._row.size] = row
            if judged.late:
                self._add_late(late_out, frame, lane, i)
                counts[LATE] += 1
            elif judged.error is not None:
                self._add_dead(dead_out, frame, lane, i, judged)
                counts[judged.error.reason.value] += 1
            if judged.task is None:
                dropped.add(i)
            else:
                _settle(lane, i, judged, frame.watermark_ms)
        lane.block = bytes(block)
        if dropped:
            lane = lane.select([i for i in range(len(lane)) if i not in dropped])
        return DecodedFrame(
            lane if len(lane) else None, late_out.encode(), dead_out.encode(), dict(counts)
        )

    def _add_late(self, out: _OutRows, frame: BatchFrame, lane: LaneFrame, i: int) -> None:
        extra = late_headers(
            lane.event_ms[i], frame.watermark_ms, self._topic, frame.partition, lane.offsets[i]
        )
        blob = append_headers(lane.headers[i], extra, len(LATE_HEADERS))
        out.add(lane.event_ms[i], lane.keys[i], blob, lane.values[i])

    def _add_dead(
        self, out: _OutRows, frame: BatchFrame, lane: LaneFrame, i: int, judged: Judged
    ) -> None:
        assert judged.error is not None
        origin = Origin(
            self._topic,
            frame.partition,
            lane.offsets[i],
            lane.event_ms[i],
            self._group,
            self._policy.stage,
            judged.attempt,
        )
        extra, count, value = dead_letter(
            origin,
            judged.error,
            lane.keys[i],
            lane.headers[i],
            lane.values[i],
            self._policy.dead_letter_bytes,
        )
        out.add(_NO_TIMESTAMP, lane.keys[i], append_headers(lane.headers[i], extra, count), value)


def _plain_id(value: bytes) -> str:
    """A valid id as text; raises ValueError."""
    if not 0 < len(value) <= MAX_ID_CHARS or value.translate(None, ID_BYTES):
        raise ValueError
    return value.decode()


def _digits(value: bytes, most: int) -> int:
    """A decimal number of at most ``most`` digits; raises ValueError."""
    if not value.isdigit() or len(value) > most:
        raise ValueError
    return int(value)


def _settle(lane: LaneFrame, i: int, judged: Judged, watermark_ms: int) -> None:
    """Put what was judged of row ``i`` into its columns."""
    assert judged.task is not None
    event_ms = lane.event_ms[i]
    lane.tasks[i] = judged.task
    lane.attempts[i] = judged.attempt
    lane.deadlines[i] = judged.deadline_ms
    lane.reply_to[i] = judged.reply_to
    if judged.late:
        lane.decided[i] = late_decision(event_ms, watermark_ms)
    elif judged.error is not None:
        lane.decided[i] = (Status.ERROR.value, judged.error.reason.value, judged.error.message)
        if judged.error.reason in _NO_USABLE_TIME:  # Kafka would refuse an answer with such a time
            lane.event_ms[i] = lane.first_arrival_ms
