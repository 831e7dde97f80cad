"""Looks at what was answered: a figure that is fast because rules answered must not look good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import orjson
from redis import Redis

from bench.kit.load import Run
from tidemill.contracts import result_key

_CHUNK = 1000
_FULL = b'"status":"ok","tier":"full"'


def values(redis: Redis, prefix: str, run: Run, numbers: range) -> Iterator[tuple[int, bytes]]:
    """Number and answer of each order that has one."""
    for start in range(numbers.start, numbers.stop, _CHUNK):
        chunk = range(start, min(start + _CHUNK, numbers.stop))
        keys = [result_key(prefix, run.orders.task(number).decode()) for number in chunk]
        found: list[bytes | None] = redis.mget(keys)  # type: ignore[assignment]
        yield from ((n, value) for n, value in zip(chunk, found, strict=True) if value is not None)


def kinds(answers: Iterable[bytes]) -> str:
    """How often which status, tier and reason was given, the most frequent first."""
    counted: Counter[str] = Counter()
    for value in answers:
        answer = orjson.loads(value)
        counted[" ".join(filter(None, (answer["status"], answer["tier"], answer["reason"])))] += 1
    return ", ".join(f"{kind} {count}" for kind, count in counted.most_common())


def is_full(value: bytes) -> bool:
    """Whether the full model made this answer."""
    return _FULL in value
