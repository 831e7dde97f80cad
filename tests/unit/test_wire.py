"""Contract: every frame reads back as it was written; foreign, cut or inconsistent bytes are errors."""

from __future__ import annotations

import struct

import pytest

from models.messages import Drain, Fail, Hello, Reply, Score, WireError
from models.wire import (
    HEADER_BYTES,
    Decoder,
    encode_drain,
    encode_fail,
    encode_hello,
    encode_reply,
    encode_score,
)

HELLO = Hello("eta", "3", ["km", "rain"], ["minutes"], [1, 8], {1: 90, 8: 110}, 8, 2, "abcd")
BLOCK, IDS = bytes(range(24)), struct.pack("<3I", 7, 8, 9)
SCORE = encode_score(2**63, BLOCK, 3, 8, -5, IDS)


def test_a_hello_reads_back() -> None:
    assert Decoder().feed(encode_hello(HELLO)) == [HELLO]


def test_a_score_reads_back() -> None:
    assert Decoder().feed(SCORE) == [Score(2**63, 3, 8, -5, memoryview(BLOCK), memoryview(IDS))]


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 256])
def test_a_reply_reads_back_at_any_padding(rows: int) -> None:
    status, outputs = bytes(i % 3 for i in range(rows)), bytes(rows * 8)
    ids = struct.pack(f"<{rows}I", *range(rows))
    raw = encode_reply(5, status, outputs, ids, 2, service_us=90, queue_us=4, bucket=8)
    (reply,) = Decoder().feed(raw)
    assert isinstance(reply, Reply)
    assert reply[:6] == (5, rows, 2, 90, 4, 8)
    assert [bytes(part) for part in reply[6:]] == [status, outputs, ids]
    assert len(raw) % 4 == 0


def test_fail_and_drain_read_back() -> None:
    raw = encode_fail(6, 3, "model_error", "naïve") + encode_drain()
    assert Decoder().feed(raw) == [Fail(6, 3, "model_error", "naïve"), Drain()]


def test_the_bytes_of_version_one_are_fixed() -> None:
    header = "544d5731" + "02" + "00" + "0000" + "0700000000000000" + "01000000" + "04000000"
    header += "0900000000000000" + "08000000" + "00000000" * 3
    assert encode_score(7, b"abcd", 1, 4, 9, b"efgh").hex() == header + "6162636465666768"


def test_parts_of_different_length_are_refused_before_they_are_sent() -> None:
    with pytest.raises(WireError, match=r"3 rows of 8 bytes need 24 \+ 12 bytes, not 23 \+ 12"):
        encode_score(1, BLOCK[:-1], 3, 8, 0, IDS)
    with pytest.raises(WireError, match="reply: 3 rows of 1 outputs"):
        encode_reply(1, bytes(3), bytes(8), IDS, 1)


def _with(offset: int, value: bytes, raw: bytes = SCORE) -> bytes:
    return raw[:offset] + value + raw[offset + len(value) :]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"GET / HTTP/1.1\r\n", "expected magic b'TMW1', got b'GET '"),
        (b"\0", "expected magic"),
        (_with(0, b"TMW2"), "expected magic b'TMW1', got b'TMW2'"),
        (_with(4, b"\x09"), "unknown kind 9"),
        (_with(32, struct.pack("<I", 2**31)), "over the limit"),
        (_with(16, struct.pack("<I", 4)), "score of 4 rows x 8 bytes has 36 payload bytes"),
        (_with(16, struct.pack("<I", 0)), "score of 0 rows"),
        (_with(4, b"\x03"), "reply of 3 rows x 0 outputs has 36"),
        (_with(4, b"\x04"), "no JSON"),
        (_with(4, b"\x04", encode_score(1, b"[1  ", 1, 4, 0, b"   ]")), "no JSON object"),
        (encode_hello(HELLO).replace(b'"protocol":1', b'"protocol":2'), "protocol 2, not 1"),
        (encode_hello(HELLO).replace(b'"credits"', b'"credit_"'), "hello lacks"),
    ],
)
def test_bytes_that_are_no_frame_are_an_error(raw: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        Decoder().feed(raw)


def test_a_cut_frame_shows_as_held_bytes() -> None:
    decoder = Decoder()
    assert decoder.feed(SCORE[:-1]) == []
    assert decoder.held_bytes == HEADER_BYTES + 35
    assert len(decoder.feed(SCORE[-1:])) == 1
    assert decoder.held_bytes == 0
