"""Frames: what goes in comes out, and bytes that are no frame say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from operators.frames import (
    EMPTY_HEADERS,
    NO_TIMESTAMP,
    NO_WATERMARK,
    BatchFrame,
    FrameError,
    OutRow,
    Record,
    Row,
    append_headers,
    decode_headers,
    decode_out,
    decode_record,
    encode_batch,
    encode_headers,
    encode_out,
    encode_record,
)
from tidemill.errors import ContractError

HEADERS = encode_headers([("task-id", b"t-1"), ("task-id", None), ("", b"")])
ROWS = [
    Row(1_700_000_000_000, 10, b"key", HEADERS, b"value"),
    Row(-1, 2**62, None, EMPTY_HEADERS, None, late=True),
    Row(2**62, 0, b"", EMPTY_HEADERS, b""),
]
OUT = encode_out(
    [5, NO_TIMESTAMP], [1, -1], [len(HEADERS), 2], [0, -1], [b"k", HEADERS, b"", EMPTY_HEADERS]
)
RECORD = Record(3, 1, 2, b"k", HEADERS, b"v")
DECODERS: list[tuple[Callable[[bytes], Any], bytes, str]] = [
    (BatchFrame.decode, encode_batch(1, ROWS), "frame TMB1"),
    (decode_out, OUT, "frame TMO1"),
    (decode_record, encode_record(RECORD), "record frame"),
    (decode_headers, HEADERS, "headers of"),
]


@pytest.mark.parametrize("rows", [[], ROWS[:1], ROWS, ROWS * 86], ids=len)
def test_a_batch_frame_gives_its_rows_back(rows: list[Row]) -> None:
    frame = BatchFrame.decode(encode_batch(7, rows, first_arrival_ms=8, watermark_ms=9))
    assert list(frame.rows()) == rows
    assert (frame.partition, frame.first_arrival_ms, frame.watermark_ms) == (7, 8, 9)
    assert len(frame) == len(rows)


def test_columns_are_plain_lists_and_rows_start_aligned() -> None:
    frame = BatchFrame.decode(encode_batch(0, ROWS))
    assert frame.ts == [row.ts for row in ROWS]
    assert frame.offsets == [10, 2**62, 0]
    assert (frame.key_lens, frame.val_lens) == ([3, -1, 0], [5, -1, 0])
    assert frame.hdr_lens == [len(HEADERS), 2, 2]
    assert frame.late == b"\0\1\0"
    assert frame.watermark_ms == NO_WATERMARK
    assert frame.start % 8 == 0
    assert frame.data[frame.start :].startswith(b"key" + HEADERS + b"value")


def test_an_out_frame_gives_its_records_back() -> None:
    assert decode_out(OUT) == [
        OutRow(5, b"k", HEADERS, b""),
        OutRow(NO_TIMESTAMP, None, EMPTY_HEADERS, None),
    ]
    assert decode_out(encode_out([], [], [], [], [])) == []


@pytest.mark.parametrize(("key", "value"), [(b"k", b"v"), (None, None), (b"", b"")])
def test_a_record_frame_gives_its_record_back(key: bytes | None, value: bytes | None) -> None:
    record = Record(-1, 2**31 - 1, 2**63 - 1, key, HEADERS, value)
    assert decode_record(encode_record(record)) == record


def test_headers_keep_order_duplicates_and_nulls() -> None:
    headers = [("b", b"1"), ("a", None), ("b", b""), ("", b"x"), ("ü" * 100, b"\xff")]
    assert decode_headers(encode_headers(headers)) == headers
    assert encode_headers([]) == EMPTY_HEADERS


def test_headers_are_appended_behind_the_others() -> None:
    extra = encode_headers([("c", b"3"), ("d", None)])[2:]
    assert decode_headers(append_headers(HEADERS, extra, 2)) == [
        *decode_headers(HEADERS),
        ("c", b"3"),
        ("d", None),
    ]


@pytest.mark.parametrize(("decode", "whole", "name"), DECODERS)
def test_a_frame_cut_at_any_byte_is_an_error(
    decode: Callable[[bytes], Any], whole: bytes, name: str
) -> None:
    for size in range(len(whole)):
        with pytest.raises(FrameError, match=f"{name}.*expected .* got "):
            decode(whole[:size])


@pytest.mark.parametrize(("decode", "whole", "name"), DECODERS)
def test_a_byte_too_many_is_an_error(
    decode: Callable[[bytes], Any], whole: bytes, name: str
) -> None:
    with pytest.raises(FrameError, match=name):
        decode(whole + b"\0")


@pytest.mark.parametrize(("decode", "magic"), [(BatchFrame.decode, b"TMB1"), (decode_out, b"TMO1")])
def test_a_foreign_magic_is_named(decode: Callable[[bytes], Any], magic: bytes) -> None:
    with pytest.raises(FrameError, match=rf"magic {magic!r}, got b'ABCD' in 64 bytes; deploy the"):
        decode(b"ABCD" + bytes(60))


@pytest.mark.parametrize(
    ("position", "damage"),
    [
        (4, 2**31 - 1),  # rows
        (4, -1),
        (4, 2),
        (8, 0),  # total bytes
        (32 + 16, -2),  # key length
        (32 + 20, -1),  # headers length
        (32 + 24, 2**31 - 1),  # value length
    ],
)
def test_an_inconsistent_frame_is_an_error(position: int, damage: int) -> None:
    frame = bytearray(encode_batch(1, ROWS[:1]))
    frame[position : position + 4] = damage.to_bytes(4, "little", signed=True)
    with pytest.raises(FrameError, match=r"frame TMB1: expected"):
        BatchFrame.decode(bytes(frame))


def test_lengths_that_cancel_each_other_out_are_an_error() -> None:
    frame = bytearray(encode_record(Record(1, 2, 3, b"", EMPTY_HEADERS, b"")))
    frame[20:24] = (-2).to_bytes(4, "little", signed=True)
    with pytest.raises(FrameError, match="record frame"):
        decode_record(bytes(frame))


@pytest.mark.parametrize(
    ("ts", "lens", "blobs"),
    [
        ([1, 2], ([1], [2], [0]), [b"k", EMPTY_HEADERS]),
        ([1], ([1], [2], [5]), [b"k", EMPTY_HEADERS]),
        ([1], ([-2], [2], [1]), [EMPTY_HEADERS, b"v"]),
        ([1], ([1], [-1], [1]), [b"k", b"v"]),
    ],
    ids=["columns", "bytes", "key length", "headers length"],
)
def test_an_out_frame_that_does_not_add_up_is_not_made(
    ts: list[int], lens: tuple[list[int], list[int], list[int]], blobs: list[bytes]
) -> None:
    with pytest.raises(FrameError, match="TMO1"):
        encode_out(ts, *lens, blobs)


def test_a_header_name_that_is_not_utf_8_is_an_error() -> None:
    blob = encode_headers([("name", b"v")]).replace(b"name", b"n\xffme")
    with pytest.raises(FrameError, match="utf-8"):
        decode_headers(blob)


def test_more_headers_than_can_be_counted_are_an_error() -> None:
    full = encode_headers([("h", None)] * 0xFFFF)
    assert len(decode_headers(full)) == 0xFFFF
    with pytest.raises(FrameError, match="at most 65535 headers, not 65536"):
        append_headers(full, encode_headers([("h", None)])[2:], 1)
    with pytest.raises(FrameError, match="at most 65535 bytes, got 65536 bytes"):
        encode_headers([("x" * 0x10000, None)])


def test_a_frame_error_is_a_broken_contract() -> None:
    with pytest.raises(ContractError):
        append_headers(b"", b"", 0)
