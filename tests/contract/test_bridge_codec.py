"""Contract: the Java and the Python codec read and write the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from operators.frames import (
    DROPPED_HEADERS,
    NO_TIMESTAMP,
    OutRow,
    Record,
    decode_headers,
    decode_out,
    decode_record,
    encode_headers,
    encode_out,
    encode_record,
)
from tests.contract.bridge_probe import Probe, ProbeError, blob, header_words, token

Headers = list[tuple[str, bytes | None]]

HEADERS: list[Headers] = [
    [],
    [("task-id", b"t-1"), ("task-id", b"t-2"), ("attempt", b"")],
    [("", b"empty name"), ("null value", None), ("ключ-🌊", b"\x00\xff")],
]
KEYS_AND_VALUES = [(b"key", b'{"a":1}'), (None, None), (b"", b""), (b"\xff" * 300, b"v" * 70_000)]


def java_record(probe: Probe, record: Record, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The record frame that the deserializer makes."""
    words = probe.ask(
        *("record", record.ts, record.partition, record.offset),
        *(token(record.key), token(record.value), *header_words(headers)),
    )
    frame = blob(words[0])
    assert frame is not None
    return frame


def out_frame(rows: Sequence[OutRow]) -> bytes:
    lens = [[-1 if part is None else len(part) for part in (r.key, r.value)] for r in rows]
    return encode_out(
        [row.ts for row in rows],
        [key for key, _ in lens],
        [len(row.headers) for row in rows],
        [value for _, value in lens],
        [part or b"" for row in rows for part in (row.key, row.headers, row.value)],
    )


def java_rows(words: list[str]) -> list[tuple[str, OutRow]]:
    """Topic and row of each producer record that the serializer made."""
    rows, rest = [], iter(words)
    for topic in rest:
        ts, key, value, count = (next(rest) for _ in range(4))
        headers: Headers = []
        for _ in range(int(count)):
            name = blob(next(rest))
            assert name is not None
            headers.append((name.decode(), blob(next(rest))))
        row = OutRow(
            NO_TIMESTAMP if ts == "-" else int(ts), blob(key), encode_headers(headers), blob(value)
        )
        rows.append((topic, row))
    return rows


@pytest.mark.parametrize(("key", "value"), KEYS_AND_VALUES)
@pytest.mark.parametrize("headers", HEADERS)
def test_record_frames_of_java_and_python_are_the_same_bytes(
    probe: Probe, key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    record = Record(1_700_000_000_123, 7, 2**40, key, encode_headers(headers), value)
    frame = java_record(probe, record, headers)
    assert frame == encode_record(record)
    assert decode_record(frame) == record
    assert decode_headers(decode_record(frame).headers) == headers


def test_a_record_without_a_time_keeps_that(probe: Probe) -> None:
    frame = java_record(probe, Record(-1, 0, 0, None, b"", None), [])
    assert decode_record(frame).ts == NO_TIMESTAMP


@pytest.mark.parametrize(
    ("headers", "dropped"),
    [
        ([("h", b"")] * 65_281, b"65281"),
        ([("x" * 65_536, b"1"), ("task-id", b"t")], b"2"),
    ],
    ids=["too many", "too long a name"],
)
def test_headers_over_the_limits_leave_their_number(
    probe: Probe, headers: Headers, dropped: bytes
) -> None:
    frame = java_record(probe, Record(1, 0, 0, b"k", b"", b"v"), headers)
    record = decode_record(frame)
    assert decode_headers(record.headers) == [(DROPPED_HEADERS, dropped)]
    assert (record.key, record.value) == (b"k", b"v")


def test_as_many_headers_as_fit_pass(probe: Probe) -> None:
    headers: Headers = [("h", b"")] * 65_280
    frame = java_record(probe, Record(1, 0, 0, None, b"", None), headers)
    assert decode_headers(decode_record(frame).headers) == headers


def test_out_frames_become_producer_records(probe: Probe) -> None:
    rows = [
        OutRow(ts, key, encode_headers(headers), value)
        for ts in (NO_TIMESTAMP, 0, 1_700_000_000_123)
        for key, value in KEYS_AND_VALUES
        for headers in HEADERS
    ]
    frame = out_frame(rows)
    assert decode_out(frame) == rows
    written = java_rows(probe.ask("serialize", "results", token(frame)))
    assert written == [("results", row) for row in rows]


def test_an_out_frame_of_no_rows_writes_nothing(probe: Probe) -> None:
    assert probe.ask("serialize", "results", token(out_frame([]))) == []


def test_java_refuses_an_out_frame_cut_at_any_byte(probe: Probe) -> None:
    frame = out_frame(
        [
            OutRow(1, b"key", encode_headers([("h", b"1")]), b"v"),
            OutRow(2, None, encode_headers([]), None),
        ]
    )
    for size in range(len(frame)):
        with pytest.raises(ProbeError, match=r"^FrameFormatException out frame TMO1: expected"):
            probe.ask("serialize", "results", token(frame[:size]))


@pytest.mark.parametrize(
    ("position", "damage", "named"),
    [
        (0, b"TMB1", "magic TMO1"),
        (4, (2**31 - 1).to_bytes(4, "little"), "2147483647 rows"),
        (4, b"\xff\xff\xff\xff", "-1 rows"),
        (24, b"\xfe\xff\xff\xff", "lengths of -1 or more"),
        (28, b"\xff\xff\xff\xff", "lengths of -1 or more"),
        (32, b"\xff\xff\xff\x7f", "an end at"),
    ],
)
def test_java_refuses_a_foreign_out_frame(
    probe: Probe, position: int, damage: bytes, named: str
) -> None:
    frame = bytearray(out_frame([OutRow(1, b"key", encode_headers([]), b"v")]))
    frame[position : position + len(damage)] = damage
    with pytest.raises(ProbeError, match=f"^FrameFormatException .*{named}"):
        probe.ask("serialize", "results", token(bytes(frame)))


@pytest.mark.parametrize("size", range(len(encode_headers([("name", b"v"), ("n", None)]))))
def test_java_refuses_headers_cut_at_any_byte(probe: Probe, size: int) -> None:
    headers = encode_headers([("name", b"v"), ("n", None)])[:size]
    with pytest.raises(ProbeError, match=r"^FrameFormatException headers of"):
        probe.ask("serialize", "results", token(out_frame([OutRow(1, None, headers, None)])))
