"""Event times: what a payload's time means in ms, and which record times are refused.

The clock of a record is its Kafka timestamp; a time in the payload is only compared with it.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Any, Final

from operators.errors import RecordError, shown
from tidemill.contracts import DeadLetterReason as Reason

_ISO: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,18}))?)?"
    r"(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?)?",
    re.ASCII,
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_MS: Final = 86_400_000


def check_record_time(ts_ms: int, now_ms: int, future_limit_ms: int) -> None:
    """Raise missing_time or future_timestamp for a record time that can't be an event's time."""
    if ts_ms <= 0:
        raise RecordError(
            Reason.MISSING_TIME,
            f"the record's timestamp is {ts_ms}: set it to the event's time in ms since 1970",
        )
    ahead_ms = ts_ms - now_ms
    if ahead_ms > future_limit_ms:
        raise RecordError(
            Reason.FUTURE_TIMESTAMP,
            f"the record's timestamp {ts_ms} is {ahead_ms} ms ahead of the clock, the limit is"
            f" {future_limit_ms}: check the producer's clock and that it sends milliseconds",
        )


def check_payload_time(value: Any, pointer: str, ts_ms: int, tolerance_ms: int) -> None:
    """Raise unless the payload's time is valid and within ``tolerance_ms`` of the record's."""
    event_ms = event_time_ms(value, pointer)
    off_ms = event_ms - ts_ms
    if abs(off_ms) > tolerance_ms:
        raise RecordError(
            Reason.TIME_MISMATCH,
            f"{pointer} is {shown(value)}, {off_ms} ms from the record's timestamp {ts_ms}, the"
            f" limit is {tolerance_ms}: set the record's timestamp to the event's time"
            f"{_unit_hint(event_ms, ts_ms)}",
        )


def event_time_ms(value: Any, pointer: str) -> int:
    """Epoch ms of a payload's time: a number of ms, or ISO 8601 text with an offset.

    Parts below a ms are cut off towards the past.  Raises RecordError: missing_time, naive_time,
    malformed_time (24:00 and leap seconds too: they have no place in epoch time) or wrong_type.
    """
    if type(value) is int or type(value) is float:
        if value <= 0:
            raise RecordError(Reason.MISSING_TIME, f"{pointer} is {value}: leave no time unset")
        return int(value // 1)
    if value is None:
        raise RecordError(Reason.MISSING_TIME, f"{pointer} is missing: send the event's time")
    if type(value) is not str:
        raise RecordError(
            Reason.WRONG_TYPE, f"{pointer} is {shown(value)}, expected ms since 1970 or ISO text"
        )
    return _iso_ms(value, pointer)


def _iso_ms(text: str, pointer: str) -> int:
    match = _ISO.fullmatch(text)
    if match is None:
        raise _malformed(text, pointer, "write it like 2026-11-01T01:30:00.123Z")
    _, _, _, hour, minute, second, fraction, zulu, sign, off_hour, off_minute = match.groups()
    if zulu is None and sign is None:
        raise RecordError(
            Reason.NAIVE_TIME,
            f"{pointer} is {shown(text)}, without an offset: add Z or +hh:mm, local time is"
            " ambiguous",
        )
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _malformed(text, pointer, "24:00 and leap seconds have no epoch time")
    off_hours, off_minutes = int(off_hour or 0), int(off_minute or 0)
    if off_hours > 23 or off_minutes > 59:
        raise _malformed(text, pointer, "the offset is at most 23:59")
    try:
        day_ms = _day_ms(text[:10])
    except ValueError as error:
        raise _malformed(text, pointer, str(error)) from error
    offset_ms = (off_hours * 60 + off_minutes) * (-60_000 if sign == "-" else 60_000)
    whole_ms = day_ms + ((hours * 60 + minutes) * 60 + seconds) * 1000 - offset_ms
    event_ms = whole_ms + int((fraction or "0").ljust(3, "0")[:3])
    if event_ms <= 0:
        raise RecordError(Reason.MISSING_TIME, f"{pointer} is {shown(text)}: before 1970")
    return event_ms


@lru_cache(maxsize=64)  # events of one frame share a day or two
def _day_ms(day: str) -> int:
    return (date.fromisoformat(day).toordinal() - _EPOCH_DAY) * _DAY_MS


def _malformed(text: str, pointer: str, why: str) -> RecordError:
    return RecordError(Reason.MALFORMED_TIME, f"{pointer} is {shown(text)}, no valid time: {why}")


def _unit_hint(event_ms: int, ts_ms: int) -> str:
    for factor, unit in ((1000, "seconds"), (1 / 1000, "microseconds"), (1e-6, "nanoseconds")):
        if 0.9 < event_ms * factor / ts_ms < 1.1:
            return f" (it looks like {unit}: send milliseconds)"
    return ""
