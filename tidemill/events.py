"""From an event to the Kafka record that carries it; pure, so it may be checked before sending."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidemill import contracts
from tidemill.errors import InvalidEvent
from tidemill.settings import Settings

Event = Mapping[str, Any] | bytes
Headers = Mapping[str, str | bytes]
# librdkafka's message.max.bytes, the limit of a whole record, unless kafka.client sets it.
_RECORD_BYTES: Final = 1_000_000
_RECORD_OVERHEAD_BYTES: Final = 512
# These are arguments of their own: two ways to say one thing would contradict one day.
_RESERVED: Final = (contracts.HEADER_TASK_ID, contracts.HEADER_DEADLINE_MS)


@dataclass(frozen=True, slots=True)
class Record:
    """A record ready to be produced."""

    topic: str
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    timestamp_ms: int
    task_id: str
    attempt: int


def build_record(
    settings: Settings,
    event: Event,
    *,
    key: str | bytes | None,
    task_id: str | None,
    deadline_ms: int | None,
    timestamp_ms: int,
    headers: Headers | None = None,
) -> Record:
    """Check the event and make its record; raises InvalidEvent naming what to change.

    Without ``key`` the entity's id (`event.id`) is taken from the event, and without ``task_id``
    the task is named after topic, key and event id, so that sending again asks for the same task.
    """
    value = event if isinstance(event, bytes) else encode_event(event)
    key_bytes = _key(settings, event, key)
    topic = settings.topics.orders
    task = _task(settings, event, topic, key_bytes, task_id)
    made = _headers(task, deadline_ms, headers or {})
    record = Record(topic, key_bytes, value, made, timestamp_ms, task, _attempt(dict(made)))
    _check_size(settings, record)
    return record


def event_from_features(
    settings: Settings, features: Mapping[str, Any], entity: str, event_id: str
) -> dict[str, Any]:
    """An event that holds ``features`` where the job will look for them, and its two ids."""
    event: dict[str, Any] = {}
    _put(event, settings.event.id, entity)
    _put(event, settings.event.event_id, event_id)
    for name, value in features.items():
        at = settings.event.features.get(name)
        if at is None:
            _put(event, f"/features/{_escaped(name)}", value)
        else:
            scaled = at.scale != 1.0 and isinstance(value, (int, float))
            _put(event, at.pointer, value / at.scale if scaled else value)
    return event


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Strict JSON: NaN and infinities are refused here, not found in the dead letters later."""
    try:
        text = json.dumps(event, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"the event is not JSON: {error}") from error


def value_at(event: Any, pointer: str) -> Any:
    """What a JSON pointer finds in ``event``, or None."""
    for part in _parts(pointer):
        if isinstance(event, Mapping):
            event = event.get(part)
        elif isinstance(event, list) and part.isdigit() and int(part) < len(event):
            event = event[int(part)]
        else:
            return None
    return event


def _key(settings: Settings, event: Event, key: str | bytes | None) -> bytes | None:
    if key is None and not isinstance(event, bytes):
        key = _id_text(value_at(event, settings.event.id))
    return key.encode("utf-8") if isinstance(key, str) else key


def _task(
    settings: Settings, event: Event, topic: str, key: bytes | None, task_id: str | None
) -> str:
    if task_id is not None:
        return contracts.check_id("task id", task_id)
    event_id = None if isinstance(event, bytes) else value_at(event, settings.event.event_id)
    text = _id_text(event_id)
    if text is None:
        where = settings.event.event_id
        raise InvalidEvent(f"the event has no text or number at {where}: add it, or give a task_id")
    return contracts.task_id_for(None, topic, key, text)


def _id_text(value: Any) -> str | None:
    if isinstance(value, str) and value:
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _headers(task: str, deadline_ms: int | None, headers: Headers) -> list[tuple[str, bytes]]:
    made = [(contracts.HEADER_TASK_ID, task.encode())]
    if deadline_ms is not None:
        made.append((contracts.HEADER_DEADLINE_MS, b"%d" % deadline_ms))
    for name, value in headers.items():
        if name in _RESERVED:
            raise InvalidEvent(f"header {name!r} is set by its own argument: use that")
        if name == contracts.HEADER_REPLY_TO:
            contracts.check_id("reply-to", _text(value))
        made.append((name, value.encode("utf-8") if isinstance(value, str) else value))
    return made


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _attempt(headers: Mapping[str, bytes]) -> int:
    text = headers.get(contracts.HEADER_ATTEMPT, b"1")
    if not (text.isdigit() and len(text) <= 9):
        raise InvalidEvent(f"header attempt = {text!r} must be a whole number of 1 to 9 digits")
    return int(text)


def _check_size(settings: Settings, record: Record) -> None:
    limit = settings.job.max_value_bytes
    if len(record.value) > limit:
        raise InvalidEvent(
            f"the event has {len(record.value)} bytes, job.max_value_bytes is {limit}: "
            "send a reference to the large part instead"
        )
    whole = len(record.value) + len(record.key or b"") + _RECORD_OVERHEAD_BYTES
    whole += sum(len(name) + len(value) + 8 for name, value in record.headers)
    option = settings.kafka.client.get("message.max.bytes", "")
    limit = int(option) if isinstance(option, str) and option.isdigit() else _RECORD_BYTES
    if whole > limit:
        raise InvalidEvent(
            f"the record has about {whole} bytes, Kafka's message.max.bytes is {limit}: "
            "send a reference to the large part instead"
        )


def _parts(pointer: str) -> list[str]:
    return [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _put(event: dict[str, Any], pointer: str, value: Any) -> None:
    *parents, last = _parts(pointer) or [""]
    for part in parents:
        event = event.setdefault(part, {})
        if not isinstance(event, dict):
            raise InvalidEvent(f"{pointer} lies inside a value: two pointers of [event] clash")
    event[last] = value
