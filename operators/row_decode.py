"""Decoding one record, strictly and in a readable order: the truth behind the fast loop.

Order of the checks: the record's time, lateness, headers, JSON, schema id, payload time, features,
task id.  The first that fails names the reason.  A task is named by its header, else derived from
topic, key and event id; a record that names no task gets no answer, only its dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from operators.errors import RecordError, shown
from operators.event_time import check_payload_time, check_record_time
from operators.headers import HeaderReader, Values
from operators.mapping import EventMapping, resolve
from operators.strict_json import exact, loads_strict
from tidemill import contracts
from tidemill.contracts import DeadLetterReason as Reason

FIRST_ATTEMPT: Final = 1
MAX_ATTEMPT_DIGITS: Final = 9
MAX_DEADLINE_DIGITS: Final = 15  # ms: some 30,000 years
ID_BYTES: Final = bytes(c for c in range(128) if contracts.valid_id(chr(c)))
# In this order in the values that HeaderReader gives for them.
NEEDED_HEADERS: Final = (
    contracts.HEADER_TASK_ID,
    contracts.HEADER_ATTEMPT,
    contracts.HEADER_DEADLINE_MS,
    contracts.HEADER_REPLY_TO,
    contracts.HEADER_SCHEMA_ID,
    contracts.HEADER_EVENT_ID,
)


@dataclass(frozen=True, slots=True)
class DecodePolicy:
    """Limits of decoding.

    ``time_tolerance_ms`` is how far a payload's time may be from its record's: more than the clock
    steps of one producer, less than a unit or zone mistake.  ``dead_letter_bytes`` is the size of
    a whole dead letter, below the 1 MiB that Kafka takes by default.
    """

    sla_ms: int = 200
    future_limit_ms: int = 300_000
    max_value_bytes: int = 1_048_576
    time_tolerance_ms: int = 60_000
    dead_letter_bytes: int = 1_000_000
    stage: str = "decode"

    def __post_init__(self) -> None:
        for name in ("sla_ms", "max_value_bytes", "dead_letter_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if self.future_limit_ms < 0 or self.time_tolerance_ms < 0:
            raise ValueError(f"{self}: a limit in ms can't be negative")


@dataclass(frozen=True, slots=True)
class RawRow:
    """One record as it lies in a batch frame; ``now_ms`` is when the frame's first row arrived."""

    ts_ms: int
    key: bytes | None
    headers: bytes
    value: bytes | None
    late: bool
    now_ms: int


@dataclass(slots=True)
class Judged:
    """What becomes of a record: scored if ``values``, else late, else a dead letter of ``error``.

    It is owed an answer if ``task`` is set.
    """

    deadline_ms: int
    task: str | None = None
    attempt: int = FIRST_ATTEMPT
    reply_to: str | None = None
    values: tuple[float, ...] | None = None
    late: bool = False
    error: RecordError | None = None


class RowDecoder:
    """Decodes one record at a time."""

    def __init__(
        self,
        mapping: EventMapping,
        policy: DecodePolicy,
        topic: str,
        schema_id: str,
    ) -> None:
        self._mapping = mapping
        self._policy = policy
        self._topic = topic
        self._schema_id = schema_id
        self._headers = HeaderReader(NEEDED_HEADERS)

    def judge(self, row: RawRow) -> Judged:
        """Never raises RecordError: it is in the result."""
        result = Judged(deadline_ms=row.now_ms + self._policy.sla_ms)
        headers = self._headers.read(row.headers)
        header_error = _read_addressing(headers, result)
        doc: dict[str, Any] | None = None
        try:
            check_record_time(row.ts_ms, row.now_ms, self._policy.future_limit_ms)
            if row.late:
                result.late = True
            elif header_error:
                raise header_error
            else:
                doc = loads_strict(row.value, self._policy.max_value_bytes)
                values = self._check(doc, headers, row.ts_ms)
                if result.task is None:
                    result.task = self._derive_task(headers, row, doc)
                result.values = values
        except RecordError as error:
            result.error = error
        if result.task is None and result.values is None and headers[0] is None:
            result.task = self._try_task(headers, row, doc)
        return result

    def _check(self, doc: dict[str, Any], headers: Values, ts_ms: int) -> tuple[float, ...]:
        schema_id = headers[4]
        if schema_id is not None and schema_id != self._schema_id.encode():
            raise RecordError(
                Reason.UNKNOWN_SCHEMA,
                f"header schema-id is {shown(schema_id)}, this model reads {self._schema_id}: send"
                " events of that schema, or leave the header out",
            )
        mapping = self._mapping
        if mapping.time_path is not None:
            value = resolve(doc, mapping.time_path)
            check_payload_time(value, mapping.time_pointer, ts_ms, self._policy.time_tolerance_ms)
        return mapping.row(doc)

    def _derive_task(self, headers: Values, row: RawRow, doc: dict[str, Any]) -> str:
        event_id = self._event_id(headers, row.value or b"", doc)
        return contracts.task_id_for(None, self._topic, row.key, event_id)

    def _try_task(self, headers: Values, row: RawRow, doc: dict[str, Any] | None) -> str | None:
        """The task of a record that is not scored, if it can be told."""
        try:
            if doc is None and headers[5] is None:
                doc = loads_strict(row.value, self._policy.max_value_bytes)
            return self._derive_task(headers, row, doc or {})
        except RecordError:
            return None

    def _event_id(self, headers: Values, raw: bytes, doc: dict[str, Any]) -> str:
        if headers[5]:
            return _text(headers[5], contracts.HEADER_EVENT_ID)
        for path in self._mapping.id_paths:
            value = resolve(doc, path)
            if type(value) is float:  # perhaps an integer of more than 64 bits
                value = resolve(exact(raw), path)
            if type(value) is int:
                return str(value)
            if value is None or value == "":
                continue
            if type(value) is not str:
                raise RecordError(
                    Reason.WRONG_TYPE,
                    f"the id at /{'/'.join(path)} is {shown(value)}: send ids as text (or integers)",
                )
            return value
        raise RecordError(
            Reason.MISSING_KEY,
            "the record names no task: send header task-id or event-id, or an id in the event"
            f" ({' or '.join('/' + '/'.join(path) for path in self._mapping.id_paths)})",
        )


def _read_addressing(headers: Values, result: Judged) -> RecordError | None:
    """Take task, reply-to, attempt and deadline over; the first bad one is returned."""
    task, attempt, deadline, reply_to, _, _ = headers
    errors: list[RecordError] = []
    for name, value in (("task", task), ("reply_to", reply_to)):
        try:
            setattr(result, name, None if value is None else _identifier(value, name))
        except RecordError as error:
            errors.append(error)
    for name, value, digits in (
        ("attempt", attempt, MAX_ATTEMPT_DIGITS),
        ("deadline_ms", deadline, MAX_DEADLINE_DIGITS),
    ):
        if value is None:
            continue
        if value.isdigit() and len(value) <= digits:
            setattr(result, name, int(value))
        else:
            errors.append(
                RecordError(
                    Reason.BAD_HEADER,
                    f"header {name.replace('_', '-')} is {shown(value)}: send 1 to {digits} decimal"
                    " digits",
                )
            )
    return errors[0] if errors else None


def _identifier(value: bytes, name: str) -> str:
    header = {"task": contracts.HEADER_TASK_ID, "reply_to": contracts.HEADER_REPLY_TO}[name]
    text = _text(value, header)
    if not contracts.valid_id(text):
        raise RecordError(
            Reason.BAD_HEADER,
            f"header {header} is {shown(text)}: use 1 to {contracts.MAX_ID_CHARS} of"
            " A-Z a-z 0-9 . _ ~ : -",
        )
    return text


def _text(value: bytes, header: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RecordError(
            Reason.BAD_HEADER, f"header {header} is {shown(value)}: it is not UTF-8"
        ) from error
