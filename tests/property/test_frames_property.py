"""Frames, for any rows: round trips, and damage that is noticed or harmless, never a crash."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.frames import (
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

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=40)
nullable = st.none() | blobs
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
headers = st.lists(st.tuples(names, nullable), max_size=5)
encoded = headers.map(encode_headers)
rows = st.lists(st.builds(Row, i64, i64, nullable, encoded, nullable, st.booleans()), max_size=20)
out_rows = st.lists(st.builds(OutRow, i64, nullable, encoded, nullable), max_size=20)


def length(blob: bytes | None) -> int:
    return -1 if blob is None else len(blob)


@given(rows, i32, i64, i64)
def test_batch_frames_round_trip(
    batch: list[Row], partition: int, first_arrival_ms: int, watermark_ms: int
) -> None:
    data = encode_batch(partition, batch, first_arrival_ms, watermark_ms)
    frame = BatchFrame.decode(data)
    assert list(frame.rows()) == batch
    assert (frame.partition, frame.first_arrival_ms) == (partition, first_arrival_ms)
    assert frame.watermark_ms == watermark_ms


@given(batch=out_rows, with_empty=st.booleans())
def test_out_frames_round_trip(batch: list[OutRow], *, with_empty: bool) -> None:
    parts = [part for row in batch for part in (row.key, row.headers, row.value)]
    data = encode_out(
        [row.ts for row in batch],
        [length(row.key) for row in batch],
        [len(row.headers) for row in batch],
        [length(row.value) for row in batch],
        [part or b"" for part in parts if part or with_empty],
    )
    assert decode_out(data) == batch


@given(st.builds(Record, i64, i32, i64, nullable, encoded, nullable))
def test_record_frames_round_trip(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


@given(headers, headers)
def test_headers_round_trip_and_append(
    first: list[tuple[str, bytes | None]], more: list[tuple[str, bytes | None]]
) -> None:
    blob = encode_headers(first)
    assert decode_headers(blob) == first
    both = append_headers(blob, encode_headers(more)[2:], len(more))
    assert both == encode_headers([*first, *more])


@given(rows, st.data())
def test_a_damaged_byte_is_an_error_or_another_frame_of_the_same_size(
    batch: list[Row], data: st.DataObject
) -> None:
    whole = bytearray(encode_batch(1, batch))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    try:
        frame = BatchFrame.decode(bytes(whole))
    except FrameError:
        return
    read = list(frame.rows())
    assert sum(len(part or b"") for row in read for part in (row.key, row.headers, row.value)) == (
        len(whole) - frame.start
    )


@given(st.binary(max_size=60))
def test_any_bytes_are_headers_or_an_error(blob: bytes) -> None:
    try:
        read = decode_headers(blob)
    except FrameError:
        return
    assert encode_headers(read) == blob
