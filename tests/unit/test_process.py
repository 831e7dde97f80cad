"""Processes of a stack: recognised by pid and start time, ended with all their children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.errors import StackError
from deploy.local.memory import resident_mib
from deploy.local.process import (
    STACK_MARK,
    ProcessRecord,
    kill_marked,
    marked_processes,
    start,
    start_ticks,
    stop_all,
)

SLEEP = ("sleep", "60")
IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
STUBBORN = (sys.executable, "-c", IGNORES_SIGTERM)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[ProcessRecord]]:
    """Records whose processes are gone after the test, whatever it did."""
    records: list[ProcessRecord] = []
    yield records
    stop_all(records, 0.0)


def run(started: list[ProcessRecord], folder: Path, argv: tuple[str, ...]) -> ProcessRecord:
    env = dict(os.environ) | {STACK_MARK: str(folder)}
    record = start("it", argv, folder / "it.out", env, folder)
    started.append(record)
    return record


def wait_for_output(record: ProcessRecord) -> None:
    while not Path(record.log).read_text():
        time.sleep(0.01)


def test_a_running_process_is_alive_until_it_is_stopped(
    started: list[ProcessRecord], tmp_path: Path
) -> None:
    record = run(started, tmp_path, SLEEP)
    assert record.alive()
    assert stop_all([record], 5.0) == []
    assert not record.alive()


def test_another_process_under_the_same_pid_is_not_it(
    started: list[ProcessRecord], tmp_path: Path
) -> None:
    record = run(started, tmp_path, SLEEP)
    recycled = replace(record, started=record.started - 1)
    recycled.signal_group(signal.SIGKILL)
    assert not recycled.alive()
    assert record.alive()


def test_a_process_that_ignores_sigterm_is_killed(
    started: list[ProcessRecord], tmp_path: Path
) -> None:
    record = run(started, tmp_path, STUBBORN)
    wait_for_output(record)
    assert stop_all([record], 0.2) == ["it"]
    assert not record.alive()


def test_a_stopped_process_is_woken_to_end(started: list[ProcessRecord], tmp_path: Path) -> None:
    record = run(started, tmp_path, SLEEP)
    os.kill(record.pid, signal.SIGSTOP)
    assert stop_all([record], 5.0) == []


def test_children_end_with_their_parent(started: list[ProcessRecord], tmp_path: Path) -> None:
    record = run(started, tmp_path, ("sh", "-c", "sleep 60 & echo $!; wait"))
    wait_for_output(record)
    child = int(Path(record.log).read_text())
    stop_all([record], 5.0)
    deadline = time.monotonic() + 5
    while start_ticks(child) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert start_ticks(child) is None


def test_memory_counts_with_the_children(started: list[ProcessRecord], tmp_path: Path) -> None:
    eats = f"{sys.executable} -c 'import time; b = bytearray(64 << 20); print(1); time.sleep(60)'"
    record = run(started, tmp_path, ("sh", "-c", f"{eats} & wait"))
    deadline = time.monotonic() + 10
    while resident_mib([record.pid])[record.pid] < 64 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert 64 <= resident_mib([record.pid])[record.pid] < 200
    assert resident_mib([1 << 30]) == {1 << 30: 0}


def test_an_ended_child_is_not_alive_though_nobody_waited_for_it(
    started: list[ProcessRecord], tmp_path: Path
) -> None:
    record = run(started, tmp_path, ("true",))
    deadline = time.monotonic() + 5
    while record.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not record.alive()


def test_what_no_record_names_is_found_by_its_mark(tmp_path: Path) -> None:
    env = dict(os.environ) | {STACK_MARK: str(tmp_path)}
    with subprocess.Popen(SLEEP, env=env, start_new_session=True) as lost:
        while not marked_processes(str(tmp_path)):  # until the child has become `sleep`
            time.sleep(0.01)
        assert marked_processes(str(tmp_path / "other")) == []
        assert kill_marked(str(tmp_path)) == 1
        assert lost.wait(5) == -signal.SIGKILL
    assert kill_marked(str(tmp_path)) == 0


def test_a_command_that_does_not_exist_names_itself(
    started: list[ProcessRecord], tmp_path: Path
) -> None:
    with pytest.raises(StackError, match="no-such-program"):
        run(started, tmp_path, ("/no-such-program",))
