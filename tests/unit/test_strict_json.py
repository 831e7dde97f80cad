"""Contract: what passes means the same to every reader; what does not has one reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operators.errors import RecordError
from operators.strict_json import MAX_DEPTH, exact, loads_strict

LIMIT = 1_048_576


def reason(raw: bytes | None, max_bytes: int = LIMIT) -> str:
    with pytest.raises(RecordError) as caught:
        loads_strict(raw, max_bytes)
    assert caught.value.message
    return caught.value.reason.value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}',
        '{"time":"2026-01-01T00:00:00Z","a:b":"::"}',
        '{"a":"\\u003a\\u003a","b":1}',
        '{"a":"\\\\","b":":"}',
        "{}",
        '{"":0}',
        ' \t\r\n{ "a" : 1 } \n',
        '{"caf\u00e9":"\u20ac\U0001f600"}',
        '{"n":[1,-2,3.5,1e10,true,false,null]}',
        '{"s":"\\ud83d\\ude00"}',
    ],
)
def test_valid_objects_pass(text: str) -> None:
    assert loads_strict(text.encode(), LIMIT) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '{"a":{"b":1,"b":2}}',
        '{"a":[[{"b":1,"b":2}]]}',
        '{"x":"::","a":{},"a":{}}',
        '{"a":"x","a":"\\u003a"}',
        '{"a":"\\u003a","a":"x"}',
        '{"a":":","a":"x"}',
        '{"a":"x","a":":"}',
        '{"":1,"":2}',
    ],
)
def test_a_key_twice_is_refused_at_any_depth(text: str) -> None:
    assert reason(text.encode()) == "duplicate_key"


@pytest.mark.parametrize("depth", [1, 2, 10, MAX_DEPTH - 1])
def test_a_key_twice_in_a_deep_object_is_refused(depth: int) -> None:
    text = '{"d":' * depth + '{"k":1,"k":2}' + "}" * depth
    assert reason(text.encode()) == "duplicate_key"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("shape", ['{"a":%s}', '{"a":[1,%s]}', '{"a":{"b":%s}}'])
def test_non_finite_literals_are_refused(literal: str, shape: str) -> None:
    assert reason((shape % literal).encode()) == "non_finite"


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "9" * 400, "-" + "9" * 5000, "1" + "0" * 310]
)
def test_numbers_beyond_any_float_are_refused(number: str) -> None:
    assert reason(f'{{"a":{number}}}'.encode()) == "not_float32"


GOOD = '{"order_id":"o-1","city":"k\u00f6ln","lat":12.97}'


@pytest.mark.parametrize(
    "encoding",
    [
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-32-le",
        "utf-32-be",
        "latin-1",
        "utf-8-sig",
    ],
)
def test_other_encodings_are_refused(encoding: str) -> None:
    assert reason(GOOD.encode(encoding)) == "bad_encoding"


@pytest.mark.parametrize("escape", ["\\ud83d", "\\udc00", "\\ude00\\ud83d", "x\\ud800y"])
def test_lone_surrogates_are_refused(escape: str) -> None:
    assert reason(f'{{"note":"{escape}"}}'.encode()) == "bad_encoding"
    assert reason(f'{{"{escape}":1}}'.encode()) == "bad_encoding"


def test_encoded_surrogates_are_refused() -> None:
    assert reason(b'{"a":"\xed\xa0\xbd"}') == "bad_encoding"


@pytest.mark.parametrize("cut", range(1, len(GOOD.encode())))
def test_truncation_anywhere_is_malformed(cut: int) -> None:
    assert reason(GOOD.encode()[:cut]) == "malformed_json"


@pytest.mark.parametrize("tail", [b"\0", b"\0\0", b"{}", b'{"order_id":"o-2"}', b"x", b",", b"]"])
def test_bytes_behind_the_document_are_malformed(tail: bytes) -> None:
    assert reason(GOOD.encode() + tail) == "malformed_json"


@pytest.mark.parametrize(
    "text",
    ["{'a':1}", '{"a":01}', '{"a":+1}', '{"a":.5}', '{"a":1,}', "{a:1}", '{"a":"\n"}', "//", "{"],
)
def test_almost_json_is_malformed(text: str) -> None:
    assert reason(text.encode()) == "malformed_json"


@pytest.mark.parametrize("text", ["[]", "1", '"text"', "null", "true", '[{"a":1}]'])
def test_only_objects_pass(text: str) -> None:
    assert reason(text.encode()) == "not_an_object"


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
        b'{"a":' + b'[{"b":' * 2000 + b"1" + b"}]" * 2000 + b"}",
    ],
)
def test_deep_nesting_is_refused(raw: bytes) -> None:
    assert reason(raw) == "too_deep"


def test_many_brackets_that_are_not_deep_pass() -> None:
    wide: dict[str, Any] = {"a": [[] for _ in range(5000)], "b": "[[[{{{" * 100, "c": '\\"[' * 200}
    assert loads_strict(json.dumps(wide).encode(), LIMIT) == wide
    deep: Any = 1
    for _ in range(MAX_DEPTH - 1):
        deep = {"a": deep}
    assert loads_strict(json.dumps({"a": deep}).encode(), LIMIT) == {"a": deep}


def test_null_empty_and_oversized_values_differ() -> None:
    assert reason(None) == "tombstone"
    assert reason(b"") == "empty_value"
    assert reason(b" ") == "malformed_json"
    assert reason(b'{"a":1}', max_bytes=6) == "oversized"
    assert loads_strict(b'{"a":1}', 7) == {"a": 1}


def test_exact_keeps_integers_of_any_size() -> None:
    raw = b'{"id":%d}' % (2**64 + 1)
    assert isinstance(loads_strict(raw, LIMIT)["id"], float)
    assert exact(raw)["id"] == 2**64 + 1
