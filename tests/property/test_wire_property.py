"""Invariant: how the bytes were cut on their way changes nothing in what is read."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from models.messages import Message, WireError
from models.wire import Decoder, encode_drain, encode_fail, encode_reply, encode_score


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    rows = draw(st.integers(1, 9))
    ids = struct.pack(f"<{rows}I", *range(rows))
    batch = draw(st.integers(0, 2**64 - 1))
    kind = draw(st.sampled_from(["score", "reply", "fail", "drain"]))
    if kind == "score":
        width = draw(st.integers(0, 5)) * 4
        block = draw(st.binary(min_size=rows * width, max_size=rows * width))
        return encode_score(batch, block, rows, width, draw(st.integers(-9, 9)), ids)
    if kind == "reply":
        return encode_reply(batch, bytes(rows), bytes(8 * rows), ids, 2, service_us=2**40)
    if kind == "fail":
        return encode_fail(batch, rows, "model_error", draw(st.text(max_size=9)))
    return encode_drain()


def _flat(messages: list[Message]) -> list[object]:
    return [tuple(m) if isinstance(m, tuple) else m for m in messages]


@given(st.lists(frames(), max_size=6), st.data())
def test_any_cut_gives_the_same_messages(sent: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(sent)
    whole = Decoder().feed(raw)
    assert len(whole) == len(sent)
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))
    decoder, read = Decoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        read += decoder.feed(raw[start:end])
    assert _flat(read) == _flat(whole)
    assert decoder.held_bytes == 0


@given(st.lists(frames(), min_size=1, max_size=4), st.integers(0, 10**6))
def test_a_cut_stream_gives_its_whole_frames_and_holds_the_rest(sent: list[bytes], at: int) -> None:
    raw = b"".join(sent)
    at %= len(raw)
    decoder = Decoder()
    read = decoder.feed(raw[:at])
    used, whole = 0, 0
    while whole < len(sent) and used + len(sent[whole]) <= at:
        used += len(sent[whole])
        whole += 1
    assert len(read) == whole
    assert decoder.held_bytes == at - used


@given(st.binary(max_size=200))
def test_foreign_bytes_are_held_or_refused_but_never_believed(raw: bytes) -> None:
    decoder = Decoder()
    try:
        read = decoder.feed(raw)
    except WireError:
        return
    assert read == []
    assert raw[:4] == b"TMW1"[: len(raw)]
