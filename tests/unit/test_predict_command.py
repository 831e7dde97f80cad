"""Contract: `tidemill predict` reads events in each documented form, and its stages add up."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cli.predict import read_event, read_features
from tests.answers import result
from tidemill.answer import Answer
from tidemill.errors import InvalidEvent
from tidemill.stages import where_time_went


def test_an_event_inline_from_a_file_or_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"a": 2}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 3}'))
    assert [read_event(text) for text in ('{"a": 1}', f"@{file}", "-")] == [
        {"a": 1},
        {"a": 2},
        {"a": 3},
    ]


@pytest.mark.parametrize("text", ["{", "[1]", "@/no/such/file", "7"])
def test_what_is_no_event_is_told(text: str) -> None:
    with pytest.raises(InvalidEvent, match="the event"):
        read_event(text)


def test_features() -> None:
    pairs = ["km=2.5", "kind=car", "rush=true", "note=a=b"]
    assert read_features(pairs) == {"km": 2.5, "kind": "car", "rush": True, "note": "a=b"}


@pytest.mark.parametrize("pair", ["km", "=2"])
def test_a_bad_feature_is_told(pair: str) -> None:
    with pytest.raises(InvalidEvent, match="NAME=VALUE"):
        read_features([pair])


def test_the_stages_add_up_to_the_total() -> None:
    answer = Answer.from_json(result("t"))
    stages = where_time_went(answer, sent_ms=1_990.0, heard_ms=2_015.5)
    assert stages == {
        "to_job": 10.0,
        "queue": 1.5,
        "service": 2.5,
        "job": 6.0,
        "to_caller": 5.5,
        "total": 25.5,
    }
    assert sum(stages.values()) == 2 * stages["total"]
