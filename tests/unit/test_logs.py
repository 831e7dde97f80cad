"""Contract: a log line is one line, text or JSON, and says what it is about."""

from __future__ import annotations

import json
import logging

import pytest

from models.logs import HumanLines, JsonLines


def _record(**extra: object) -> logging.LogRecord:
    record = logging.LogRecord(
        "operators.lane", logging.WARNING, "", 0, "frozen: %s", ("eta",), None
    )
    record.__dict__.update(extra)
    return record


def test_a_json_line_has_its_subjects_as_fields() -> None:
    line = json.loads(JsonLines().format(_record(task="t-1", control_version=4)))
    assert line["message"] == "frozen: eta"
    assert (line["task"], line["control_version"], line["level"]) == ("t-1", 4, "WARNING")
    assert "frame" not in line


@pytest.mark.parametrize(("extra", "end"), [({}, "frozen: eta"), ({"frame": 9}, "eta [frame=9]")])
def test_a_human_line_names_them_at_its_end(extra: dict[str, object], end: str) -> None:
    assert HumanLines().format(_record(**extra)).endswith(end)
