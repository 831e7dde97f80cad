"""Contract: any value can stand in a message, short and without raising."""

from __future__ import annotations

from typing import Any

import pytest

from operators.errors import SHOWN_CHARS, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        (b"\xff", "b'\\xff'"),
        (1.5, "1.5"),
        (None, "None"),
        ({"a": 1}, "an object of 1"),
        ([1, 2], "an array of 2"),
        ("x" * 200, f"'{'x' * SHOWN_CHARS}'... (200 long)"),
    ],
)
def test_shown(value: Any, text: str) -> None:
    assert shown(value) == text


def test_integers_too_long_to_print() -> None:
    for value in (10**5000, -(10**5000)):
        assert shown(value) == "an integer of 16610 bits"
