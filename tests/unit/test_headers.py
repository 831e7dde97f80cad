"""Contract: the remembered layout of a header blob never gives a value of another layout."""

from __future__ import annotations

import pytest

from operators.frames import FrameError, encode_headers
from operators.headers import HeaderReader

Pairs = list[tuple[str, bytes | None]]

BLOBS: list[Pairs] = [
    [],
    [("a", b"1")],
    [("a", b"2")],
    [("b", b"1")],
    [("a", b"")],
    [("a", None)],
    [("a", b"1"), ("a", b"2")],
    [("a", b"1"), ("a", None)],
    [("a", None), ("a", b"1")],
    [("b", b"1"), ("a", b"2")],
    [("a", b"1"), ("b", b"2")],
    [("", b"x"), ("ab", b"")],
    [("ab", b""), ("", b"x")],
    [("a\u00e9", b"1"), ("a", b"\xff\0")],
]


@pytest.mark.parametrize("first", BLOBS)
def test_any_layout_after_any_other(first: Pairs) -> None:
    reader = HeaderReader(("a", "b", "missing"))
    for pairs in [first, *BLOBS, first]:
        values: dict[str, bytes | None] = dict(pairs)
        expected = (values.get("a"), values.get("b"), None)
        assert reader.read(encode_headers(pairs)) == expected


def test_one_name() -> None:
    reader = HeaderReader(("a",))
    for value in (b"1", b"2"):
        assert reader.read(encode_headers([("a", value)])) == (value,)


def test_ever_changing_lengths_do_not_pile_up() -> None:
    reader = HeaderReader(("a", "b"))
    for size in range(1000):
        blob = encode_headers([("a", b"x" * size)])
        assert reader.read(blob) == (b"x" * size, None)
    assert len(reader._layouts) <= 256


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_truncated_blob_names_itself(cut: int) -> None:
    with pytest.raises(FrameError):
        HeaderReader(("a", "b")).read(encode_headers([("abc", b"xyz")])[:-cut])
