"""The control topic, wired: commands reach every lane, and no message of it is fatal."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from drift.control import Command
from tests.support.deployment import Deployment
from tests.support.views import Views


def answer_once(
    job: Deployment, name: str, true: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Send orders until an answer is as wanted: control and data are not ordered."""
    end = time.monotonic() + 20
    for number in itertools.count():
        job.orders.send(f"{name}-{number}", partition=number % 4)
        job.orders.flush()
        answer = job.answer(f"{name}-{number}")
        if true(answer):
            return answer
        assert time.monotonic() < end, f"the last answer was {answer}"
    raise AssertionError


def test_control_messages_change_what_answers_say(job: Deployment, views: Views, name: str) -> None:
    job.command(5, Command.FREEZE, "a")
    answer = answer_once(job, f"{name}-freeze", lambda a: a["control_version"] == 5)
    assert answer["frozen"] == ["a"]
    record = views.result_of(answer["task"])
    assert record.header("control-version") == b"5"

    job.command(4, Command.RELEASE, "a")  # older: ignored
    job.command(6, "reticulate", "b")  # unknown: reported, no more
    job.command(7, Command.FREEZE, "b")
    answer = answer_once(job, f"{name}-second", lambda a: a["control_version"] == 7)
    assert answer["frozen"] == ["a", "b"]

    job.command(8, Command.RELEASE, "global")
    answer = answer_once(job, f"{name}-release", lambda a: a["control_version"] == 8)
    assert (answer["frozen"], answer["status"]) == ([], "ok")
    assert job.flink.state(job.job_id) == "RUNNING"
