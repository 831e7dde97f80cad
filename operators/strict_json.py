"""Strict JSON of event values: what passes means the same to every reader.

orjson is fast and refuses NaN, bad encodings and trailing bytes, but keeps the last of duplicate
keys.  Duplicates are found by counting: a document without colons in strings has as many ':' as
it has pairs, so a pair that was lost shows.  Only documents that can't be told that way are read a
second time by the standard library.  A refused document is read again to name its reason.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, Final, NoReturn

import orjson

from operators.errors import RecordError, shown
from tidemill.contracts import DeadLetterReason as Reason

MAX_DEPTH: Final = 100  # far above any event, far below the recursion limit of any reader
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_MAX_DIGITS: Final = 310  # a longer integer is over the largest double, and slow to convert
_UTF16_OR_BOM: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0")


def loads_strict(raw: bytes | None, max_bytes: int) -> dict[str, Any]:
    """The object in ``raw``, or RecordError with the reason from the closed list.

    Integers above 2**64 come back as floats; ``exact`` gives them digit by digit.
    """
    if raw is None:
        raise RecordError(Reason.TOMBSTONE, "the value is null: a delete marker can't be scored")
    if not raw:
        raise RecordError(Reason.EMPTY_VALUE, "the value has no bytes: send the event as JSON")
    if len(raw) > max_bytes:
        raise RecordError(
            Reason.OVERSIZED,
            f"the value has {len(raw)} bytes, the limit is {max_bytes}: send a pointer to large"
            " content, or raise job.max_value_bytes",
        )
    try:
        doc = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        _refuse(raw, error)
    check_depth(raw)
    if type(doc) is not dict:
        raise RecordError(Reason.NOT_AN_OBJECT, f"the value is {shown(doc)}: send a JSON object")
    check_unique_keys(raw, doc)
    return doc


def check_depth(raw: bytes) -> None:
    """Raise too_deep if objects and arrays are nested more than MAX_DEPTH deep."""
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        raise RecordError(
            Reason.TOO_DEEP, f"the value is nested more than {MAX_DEPTH} deep: flatten the event"
        )


def check_unique_keys(raw: bytes, doc: object) -> None:
    """Raise duplicate_key if an object in ``doc``, decoded from ``raw``, lost a pair to a later one.

    ``raw`` must have passed ``check_depth``.
    """
    colons = raw.count(b":")
    pairs, colons_in_text = _count(doc)
    if colons == pairs:  # no colon is left over for a lost pair
        return
    if colons == pairs + colons_in_text and b"\\" not in raw:  # text holds what the bytes hold
        return
    exact(raw)


def exact(raw: bytes) -> Any:
    """``raw``, which orjson accepts, with integers of any size; raises duplicate_key."""
    return json.loads(
        raw, object_pairs_hook=_unique, parse_int=_parse_int, parse_float=_parse_float
    )


def _count(doc: object) -> tuple[int, int]:
    """Pairs in ``doc``, and colons in its keys and text.  Not recursive: depth is not bounded."""
    pairs = colons = 0
    todo = [doc]
    while todo:
        node = todo.pop()
        if type(node) is dict:
            pairs += len(node)
            for key, value in node.items():
                colons += key.count(":")
                if type(value) is str:
                    colons += value.count(":")
                elif type(value) is dict or type(value) is list:
                    todo.append(value)
        elif type(node) is list:
            todo.extend(node)
        elif type(node) is str:
            colons += node.count(":")
    return pairs, colons


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for match in _BRACKETS.finditer(raw):
        token = match.group()
        if token in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in b"]}":
            depth -= 1
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    doc = dict(pairs)
    if len(doc) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise RecordError(
            Reason.DUPLICATE_KEY,
            f"the key {shown(twice)} is there more than once in one object: readers would differ"
            " in which value they take; send it once",
        )
    return doc


def _parse_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        _too_large(text)
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _too_large(text)
    return value


def _too_large(text: str) -> NoReturn:
    raise RecordError(
        Reason.NOT_FLOAT32, f"the number {shown(text)} is over the range of any float: check units"
    )


def _refuse(raw: bytes, error: orjson.JSONDecodeError) -> NoReturn:
    """Name the reason why orjson refused ``raw``."""
    _refuse_encoding(raw)
    check_depth(raw)
    try:
        doc = json.loads(
            raw.decode(),
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
        )
        json.dumps(doc, ensure_ascii=False).encode()
    except UnicodeEncodeError as surrogate:
        raise RecordError(
            Reason.BAD_ENCODING,
            "a text holds a lone surrogate escape, which no UTF-8 can carry: send whole characters",
        ) from surrogate
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        pass
    raise RecordError(
        Reason.MALFORMED_JSON, f"the value is not one JSON document: {error}; check the producer"
    ) from error


def _refuse_encoding(raw: bytes) -> None:
    if raw.startswith(_UTF16_OR_BOM) or raw[1:2] == b"\0":
        raise RecordError(
            Reason.BAD_ENCODING,
            f"the value starts with {raw[:4].hex(' ')}: send UTF-8 without a byte order mark",
        )
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":  # else: truncated, which is malformed
            raise RecordError(
                Reason.BAD_ENCODING,
                f"the value is not UTF-8: byte 0x{raw[error.start]:02x} at {error.start}"
                f" ({error.reason}); encode text as UTF-8",
            ) from error


def _refuse_constant(name: str) -> NoReturn:
    raise RecordError(
        Reason.NON_FINITE, f"the value holds {name}, which is not JSON: leave the field out"
    )
