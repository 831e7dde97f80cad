"""Categories are counted by their declared type, and their codes are the same in every process."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from drift.vocabulary import CategoryType, Vocabulary, canonical
from tidemill.errors import SettingsError


@pytest.mark.parametrize(
    ("value", "declared", "text"),
    [
        (1, "int", "1"),
        ("1", "int", "1"),
        (1.0, "int", "1"),
        ("1.0", "int", "1"),
        (np.float32(1), "int", "1"),
        ("9007199254740993", "int", "9007199254740993"),
        ("1.5", "int", "1.5"),
        ("abc", "int", "abc"),
        (1, "str", "1"),
        (1.0, "str", "1"),
        (" x ", "str", "x"),
        (True, "bool", "true"),
        ("False", "bool", "false"),
        (1.0, "bool", "true"),
        (0, "bool", "false"),
        ("maybe", "bool", "maybe"),
        ("1e1", "float", "10.0"),
        (None, "str", None),
        (math.nan, "int", None),
        ("nan", "float", None),
    ],
)
def test_a_value_has_one_spelling(value: Any, declared: CategoryType, text: str | None) -> None:
    assert canonical(value, declared) == text


def test_declared_values_have_their_places_and_others_are_unseen() -> None:
    words = Vocabulary(("1", "2"), declared="int")
    codes = words.codes([1, "2", 2.0, 7, None])
    assert codes.dtype == np.float32
    assert codes[:4].tolist() == [0, 1, 1, 2]
    assert math.isnan(codes[4])
    assert [words.name_of(code) for code in range(3)] == ["1", "2", "unseen"]


def test_a_hash_is_the_same_in_every_process() -> None:
    words = Vocabulary(buckets=1000)
    assert words.codes(["north", "south", 1, "1"]).tolist() == [292, 462, 710, 710]
    assert words.name_of(710) == "bucket 710"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"values": ("a",), "buckets": 3},
        {"values": ("1", "1.0"), "declared": "int"},
        {"buckets": 5000},
        {"buckets": -1},
    ],
)
def test_a_vocabulary_that_cant_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Vocabulary(**wrong)
