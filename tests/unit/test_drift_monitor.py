"""The whole loop: a fault is noticed, frozen and released, and a restart or replay changes no byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from drift.control import Command
from drift.events import Request
from drift.monitor import Monitor
from drift.panes import PanePolicy, Source
from drift.policy import DriftPolicy
from drift.reference import Column, Reference, ReferencePolicy, build_reference
from drift.report import event_data
from drift.slots import SlotPolicy
from drift.states import Status
from tidemill.errors import ContractError, SettingsError

MINUTE = 60_000
PANES = PanePolicy(MINUTE, 10 * MINUTE, MINUTE)
POLICY = DriftPolicy(window_ms=10 * MINUTE, slide_ms=MINUTE)
Counts = list[tuple[int, Source, NDArray[np.int64]]]


@pytest.fixture(scope="module")
def reference() -> Reference:
    block = np.random.default_rng(1).standard_normal((20_000, 4)).astype(np.float32)
    return build_reference("m", "1", [Column(f"f{i}") for i in range(4)], block)


@pytest.fixture(scope="module")
def stream(reference: Reference) -> Counts:
    """An hour of panes from two subtasks; feature 1 is scaled by a thousand for 20 minutes."""
    chance = np.random.default_rng(2)
    found = []
    for minute in range(60):
        for subtask in range(2):
            block = chance.standard_normal((150, 4)).astype(np.float32)
            if 20 <= minute < 40:
                block[:, 1] *= 1000
            found.append((minute * MINUTE, Source(subtask, 0), reference.grid.count(block)))
    return found


def replay(monitor: Monitor, stream: Counts) -> Iterator[bytes]:
    """Each pane's counts, then the watermark at its end."""
    for pane, source, counts in stream:
        monitor.put(pane, source, counts)
        if source.subtask == 1:
            for report in monitor.advance(pane + MINUTE):
                yield report.encode(monitor.reference)


def test_a_fault_is_frozen_within_a_window_and_released_after_it(
    reference: Reference, stream: Counts
) -> None:
    monitor = Monitor(reference, POLICY, PANES)
    reports = [json.loads(raw) for raw in replay(monitor, stream)]
    assert [report["end_ms"] for report in reports] == [m * MINUTE for m in range(1, 61)]
    events = [event for report in reports for event in report["events"]]
    assert {event["feature"] for event in events if event["new"] != "ok"} == {"f1"}
    f1 = [(event["at_ms"] // MINUTE, event["new"]) for event in events if event["feature"] == "f1"]
    assert [new for _, new in f1] == ["ok", "alert", "frozen", "ok"]
    (alert, frozen, released) = [at for at, _ in f1[1:]]
    assert 20 < alert <= 25 < frozen <= 30
    assert 50 <= released <= 56
    assert reports[30]["features"][1]["bins"]
    assert sum(report["rows"] for report in reports[9:]) == 51 * 3_000


def test_batch_and_stream_give_the_same_bytes(reference: Reference, stream: Counts) -> None:
    expected = list(replay(Monitor(reference, POLICY, PANES), stream))
    batch = Monitor(reference, POLICY, PANES)
    for pane, source, counts in reversed(stream):
        batch.put(pane, source, counts)
    reports = [report.encode(reference) for report in batch.advance(60 * MINUTE)]
    assert reports == expected


@pytest.mark.parametrize("cut", [1, 25, 45, 81, 119])
def test_a_restart_with_replay_gives_the_same_bytes(
    reference: Reference, stream: Counts, cut: int
) -> None:
    expected = list(replay(Monitor(reference, POLICY, PANES), stream))
    first = Monitor(reference, POLICY, PANES)
    reports = list(replay(first, stream[:cut]))
    second = Monitor.restore(first.snapshot(), reference, POLICY, PANES)
    again = [(pane, source._replace(attempt=1), counts) for pane, source, counts in stream]
    reports += list(replay(second, again[max(0, cut - 9) :]))
    assert reports == expected


def test_a_silent_source_is_reported_once_and_nothing_is_called_ok(
    reference: Reference, stream: Counts
) -> None:
    monitor = Monitor(reference, POLICY, PANES)
    list(replay(monitor, stream[:40]))
    silent = [json.loads(r.encode(reference)) for r in monitor.advance(10**9)]
    assert silent[-1]["rows"] == 0
    assert len(silent) == 10
    assert {feature["status"] for feature in silent[-1]["features"]} == {"insufficient_data"}
    assert silent[-1]["features"][0]["min_rows"] is None


def test_commands_go_through_and_a_new_reference_begins_anew(
    reference: Reference, stream: Counts
) -> None:
    monitor = Monitor(reference, POLICY, PANES)
    list(replay(monitor, stream[:50]))
    request = Request("1", Command.FREEZE, "f3", "ann", "sensor is being replaced")
    (event,) = monitor.obey(request, 25 * MINUTE)
    assert event_data(event)["who"] == "ann"
    other = replace(reference, version="2")
    moved = Monitor.restore(monitor.snapshot(), other, POLICY, PANES)
    assert moved.logic.frozen == ("f3",)
    assert not moved.window.total.any()
    assert moved.logic.state.features["f3"].status is Status.FROZEN


def test_foreign_bytes_and_contradicting_policies_are_refused(reference: Reference) -> None:
    with pytest.raises(ContractError):
        Monitor.restore(b"x" * 100, reference, POLICY, PANES)
    with pytest.raises(SettingsError, match="must be the same"):
        Monitor(reference, DriftPolicy(), PANES)
    seasonal = replace(reference, policy=ReferencePolicy(slots=SlotPolicy("hour_of_day")))
    with pytest.raises(SettingsError, match="must divide an hour"):
        Monitor(
            seasonal,
            replace(POLICY, window_ms=7 * MINUTE, slide_ms=7 * MINUTE),
            PanePolicy(7 * MINUTE, 7 * MINUTE, 7 * MINUTE),
        )
