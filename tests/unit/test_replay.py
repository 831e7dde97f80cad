"""Contract of a replay: events leave in order, at their pace, with their own times."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from jobs.replay import Pace, Recorded, read_events, recorded, retention_warning, shifted
from tidemill.errors import SettingsError

DAY_MS = 86_400_000
LINES = [
    {"order_id": "a", "event_time_ms": 1000, "key": "k", "features": {"x": 1}},
    {"order_id": "b", "event_time_ms": 3000, "task_id": "t-b"},
]


@pytest.mark.parametrize(
    ("pace", "due_s"),
    [
        (Pace(1.0), [0, 2]),
        (Pace(10.0), [0, 0.2]),
        (Pace(0.0), [0, 0]),
        (Pace(1.0, rate=4.0), [0, 0.25]),
    ],
)
def test_when_an_event_is_due(pace: Pace, due_s: list[float]) -> None:
    assert [pace.due_s(0, 0), pace.due_s(1, 2000)] == due_s


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_a_file_is_read_line_by_line(tmp_path: Path, name: str) -> None:
    text = "\n".join([json.dumps(LINES[0]), "", json.dumps(LINES[1])])
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    first, second = read_events(str(tmp_path / name))
    assert (first.time_ms, first.key, first.task) == (1000, b"k", None)
    assert json.loads(first.value) == LINES[0]
    assert (second.time_ms, second.key, second.task) == (3000, None, "t-b")


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"event_time_ms": "soon"}'])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text(json.dumps(LINES[0]) + "\n" + line)
    with pytest.raises(SettingsError, match="line 2"):
        list(read_events(str(path)))


def test_a_source_that_is_neither_file_nor_data_set_is_named() -> None:
    with pytest.raises(SettingsError, match=r"no file flight.*flights"):
        next(read_events("flight"))


def test_shifted_events_keep_their_distances() -> None:
    events = list(shifted(map(recorded, LINES), 50_000))
    assert [event.time_ms for event in events] == [50_000, 52_000]
    assert [json.loads(event.value)["event_time_ms"] for event in events] == [50_000, 52_000]
    assert [(event.key, event.task) for event in events] == [(b"k", None), (None, "t-b")]


@pytest.mark.parametrize(
    ("retention_ms", "age_ms", "warned"),
    [(-1, 5000 * DAY_MS, False), (7 * DAY_MS, 6 * DAY_MS, False), (7 * DAY_MS, 8 * DAY_MS, True)],
)
def test_a_topic_that_would_delete_old_events_is_warned_about(
    retention_ms: int, age_ms: int, warned: bool
) -> None:
    now_ms = 6000 * DAY_MS
    warning = retention_warning(retention_ms, now_ms - age_ms, now_ms, "orders")
    assert (warning is not None) == warned
    assert warning is None or "retention.ms=-1" in warning


def test_a_record_needs_nothing_but_its_time() -> None:
    assert recorded({"event_time_ms": 5}) == Recorded(5, None, b'{"event_time_ms":5}', None)
