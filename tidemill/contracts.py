"""The contract between producers, jobs and callers: topics, headers, keys, result and reasons.

Constants and tiny pure functions; docs/contracts.md says the same in prose and a test compares
the two.  Nothing here knows of Kafka, Redis or Flink clients.
"""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import sha1
from typing import Final
from uuid import UUID

from tidemill.errors import InvalidEvent

# --- record headers: lower-case names, bytes values; the last duplicate wins -------------------
HEADER_TRACEPARENT: Final = "traceparent"
HEADER_TASK_ID: Final = "task-id"
HEADER_EVENT_ID: Final = "event-id"
HEADER_REPLY_TO: Final = "reply-to"
HEADER_DEADLINE_MS: Final = "deadline-ms"  # absolute, milliseconds since the epoch
HEADER_ATTEMPT: Final = "attempt"  # 1 if absent
HEADER_SCHEMA_ID: Final = "schema-id"
HEADER_MODEL_VERSION: Final = "model-version"
HEADER_CONTROL_VERSION: Final = "control-version"
HEADER_CALLBACK: Final = "callback"
CALLBACK_PENDING: Final = b"pending"  # Redis was not written: the relay owes the delivery

HEADERS: Final = (
    HEADER_TRACEPARENT,
    HEADER_TASK_ID,
    HEADER_EVENT_ID,
    HEADER_REPLY_TO,
    HEADER_DEADLINE_MS,
    HEADER_ATTEMPT,
    HEADER_SCHEMA_ID,
    HEADER_MODEL_VERSION,
    HEADER_CONTROL_VERSION,
    HEADER_CALLBACK,
)

DLQ_PREFIX: Final = "x-dlq."
DLQ_HEADERS: Final = tuple(
    DLQ_PREFIX + name
    for name in (
        "topic",
        "partition",
        "offset",
        "timestamp",
        "group",
        "stage",
        "reason",
        "message",
        "attempts",
    )
)
LATE_PREFIX: Final = "x-late."
LATE_HEADERS: Final = tuple(
    LATE_PREFIX + name for name in ("lateness-ms", "watermark-ms", "topic", "partition", "offset")
)


class Status(StrEnum):
    """How a task ended.  Every accepted record gets exactly one of these."""

    OK = "ok"
    ERROR = "error"  # undecodable or invalid record, model error, non-finite output
    LATE = "late"  # behind the watermark
    EXPIRED = "expired"  # the deadline passed before any tier could answer
    REJECTED = "rejected"  # no tier may take it


class Tier(StrEnum):
    """Which tier made the answer."""

    FULL = "full"
    RULES = "rules"
    NONE = "none"


class DeadLetterReason(StrEnum):
    """Why a record was set aside: the closed list, also the label values of the counters."""

    TOMBSTONE = "tombstone"
    EMPTY_VALUE = "empty_value"
    OVERSIZED = "oversized"
    BAD_ENCODING = "bad_encoding"
    MALFORMED_JSON = "malformed_json"
    DUPLICATE_KEY = "duplicate_key"
    NON_FINITE = "non_finite"
    NOT_AN_OBJECT = "not_an_object"
    TOO_DEEP = "too_deep"
    UNKNOWN_SCHEMA = "unknown_schema"
    MISSING_FIELD = "missing_field"
    UNKNOWN_CATEGORY = "unknown_category"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    NOT_FLOAT32 = "not_float32"
    BAD_HEADER = "bad_header"
    MISSING_KEY = "missing_key"
    MISSING_TIME = "missing_time"
    FUTURE_TIMESTAMP = "future_timestamp"
    TIME_MISMATCH = "time_mismatch"
    NAIVE_TIME = "naive_time"
    MALFORMED_TIME = "malformed_time"
    MODEL_ERROR = "model_error"
    NON_FINITE_OUTPUT = "non_finite_output"


# --- ids ---------------------------------------------------------------------------------------
MAX_ID_CHARS: Final = 200
# These characters need no escaping in JSON, Redis keys, channel patterns or URLs.
ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._~:-]{1,200}")
TASK_NAMESPACE: Final = UUID("6f2c3f0e-5d0b-5c55-9a3a-7d1f0a6f4e11")
_NAMESPACE_BYTES: Final = TASK_NAMESPACE.bytes


def valid_id(text: str) -> bool:
    """Whether ``text`` may be a task id or a reply-to name."""
    return ID_PATTERN.fullmatch(text) is not None


def check_id(kind: str, text: str) -> str:
    """Return ``text`` if it may be used as an id, else raise InvalidEvent."""
    if valid_id(text):
        return text
    shown = text if len(text) <= 60 else f"{text[:60]}... ({len(text)} characters)"
    raise InvalidEvent(
        f"{kind} {shown!r} can't be used: 1 to {MAX_ID_CHARS} of A-Z a-z 0-9 . _ ~ : - are allowed"
    )


def task_id_for(header: str | None, topic: str, key: bytes | None, event_id: str) -> str:
    """The task id of a record: its header, else uuid5 of topic, key and event id, never random.

    The same record read again therefore has the same task, and its answer the same Redis key.
    A null key is told from an empty one.
    """
    if header is not None:
        return header
    name = f"{topic}\0{'-' if key is None else key.hex()}\0{event_id}".encode()
    digest = bytearray(sha1(_NAMESPACE_BYTES + name, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50  # version 5
    digest[8] = digest[8] & 0x3F | 0x80  # RFC 4122 variant
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# --- topics ------------------------------------------------------------------------------------
def late_topic(topic: str) -> str:
    """Where records behind the watermark of ``topic`` go."""
    return f"{topic}.late"


def dlq_topic(topic: str, group: str) -> str:
    """Where the dead letters of one consumer group of ``topic`` go."""
    return f"{topic}.{group}.dlq"


# --- Redis -------------------------------------------------------------------------------------
def key_prefix(app: str, env: str) -> str:
    """The prefix of every key and channel of one deployment."""
    return f"{app}:{env}"


def result_key(prefix: str, task: str) -> str:
    """Key of the answer of ``task``, and the channel of its wake-up; braces are a hash tag."""
    return f"{prefix}:res:{{{task}}}"


def callback_key(prefix: str, caller: str) -> str:
    """Stream of the answers owed to ``caller``; its entries have task, status and result."""
    return f"{prefix}:cb:{caller}"


CALLBACK_FIELDS: Final = ("task", "status", "result")

# --- result ------------------------------------------------------------------------------------
RESULT_VERSION: Final = 1
# Fields of the result JSON, in this order, always all present.
RESULT_FIELDS: Final = (
    "v",
    "task",
    "attempt",
    "status",
    "tier",
    "outputs",
    "reason",
    "message",
    "model",
    "model_version",
    "control_version",
    "frozen",
    "event_ms",
    "ingest_ms",
    "done_ms",
    "deadline_ms",
    "queue_ms",
    "service_ms",
    "partition",
    "offset",
)
CONTROL_VERSION: Final = 1
