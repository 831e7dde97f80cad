"""Contract: JSON pointers follow RFC 6901; a mapping that can't work fails at the start."""

from __future__ import annotations

from typing import Any

import pytest

from operators.errors import MappingError
from operators.mapping import EventMapping, parse_pointer, resolve
from tests.decoding import schema_of
from tidemill.settings import EventSettings, FeaturePointer

# The document and the pointers of RFC 6901, section 5.
RFC_DOC: dict[str, Any] = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6,
    " ": 7, "m~n": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/foo/1", "baz"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
        ("/foo/2", None),
        ("/foo/-", None),
        ("/foo/00", None),
        ("/foo/-1", None),
        ("/foo/bar", None),
        ("/missing/x", None),
        ("/a~1b/x", None),
    ],
)
def test_pointers_of_the_rfc(pointer: str, value: Any) -> None:
    assert resolve(RFC_DOC, parse_pointer(pointer)) == value


def test_an_escaped_escape_is_not_unescaped_twice() -> None:
    assert parse_pointer("/~01") == ("~1",)


@pytest.mark.parametrize("pointer", ["foo", "", "#/foo", "/a~", "/a~2b", "~0"])
def test_pointers_that_are_none(pointer: str) -> None:
    with pytest.raises(MappingError, match="JSON pointer"):
        parse_pointer(pointer)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"features": {"distance_kn": FeaturePointer("/d")}}, "did you mean 'distance_km'"),
        ({"features": {"zzz": FeaturePointer("/d")}}, "no such feature; it has"),
        ({"features": {"stops": FeaturePointer("/a~9")}}, "event.features.stops: JSON pointer"),
        ({"features": {"city": FeaturePointer("/c", 2.0)}}, "category can't be scaled"),
        ({"features": {"city": FeaturePointer("/c", 1.0, "rome")}}, "default can't be used.*rome"),
        ({"features": {"stops": FeaturePointer("/s", 1.0, -1)}}, "default can't be used.*0..inf"),
        ({"features": {"express": FeaturePointer("/s", 1.0, 1)}}, "true or false"),
        ({"event_time": "/x~y"}, "event.event_time"),
        ({"id": "/x~y"}, "event.id"),
    ],
)
def test_a_mapping_that_cant_work_names_its_setting(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(MappingError, match=says):
        EventMapping.from_settings(EventSettings(**settings), schema_of())


def test_a_default_of_the_mapping_stands_in_for_a_required_feature() -> None:
    pointers = {
        "distance_km": FeaturePointer("/d", 0.001, 7),
        "city": FeaturePointer("/c", 1.0, "paris"),
    }
    mapping = EventMapping.from_settings(EventSettings(features=pointers), schema_of())
    assert mapping.row({"features": {"stops": 1}}) == (7.0, 1.0, 0.0, 1.0, 2.0, 1.5)
