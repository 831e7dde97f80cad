"""One job a file of faults, one file a mode, and the table of what became of their orders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.local.stack import RunningStack
from tests.support.deployment import Deployment
from tests.support.faults import HEAD, Inject, Tally, under_fault
from tests.support.views import Views

RunFault = Callable[..., Tally]

_ROWS: list[str] = []

# Long against what a restart takes here: the deadline is not the point, except where a test says so.
SLA_MS = 15_000
# A worker without progress for so long is given up on: above the pauses of a busy machine.
STALL_MS = 2000.0


def overlay(mode: str) -> dict[str, dict[str, Any]]:
    """Settings of the jobs of this folder."""
    return {
        "job": {
            "sla_ms": SLA_MS,
            "idle_ms": 5000,
            "out_of_orderness_ms": 120_000,
            "mode": mode,
        },
        "batch": {"stall_floor_ms": STALL_MS},
    }


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table of faults."""
    if _ROWS:
        terminalreporter.section("faults, counted from outside")
        for line in (HEAD, *_ROWS):
            terminalreporter.write_line(line)


@pytest.fixture(scope="module")
def realtime(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A warm job in realtime mode with its supervised worker and its relay."""
    yield from _deploy(stack, tmp_path_factory, "realtime")


@pytest.fixture(scope="module")
def strict(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A warm job with exactly-once sinks; only the relay writes Redis."""
    yield from _deploy(stack, tmp_path_factory, "strict")


def _deploy(
    stack: RunningStack, folders: pytest.TempPathFactory, mode: str
) -> Iterator[Deployment]:
    folder = folders.mktemp(mode)
    with Deployment(stack, mode, folder, overlay(mode), supervised=True) as job:
        relay = [sys.executable, "-m", "cli.main", "relay", "--config", str(job.settings_path)]
        stack.add_program(f"relay-{mode}", relay)
        try:
            job.submit()
            job.warm_up()
            yield job
        finally:
            stack.kill(f"relay-{mode}")


@pytest.fixture
def run_fault() -> RunFault:
    """Runs one fault under traffic, adds its row to the table, and checks what holds always."""

    def run(
        job: Deployment, fault: str, inject: Inject, *, one_answer: bool = True, **options: Any
    ) -> Tally:
        with Views(job) as views:
            tally = under_fault(job, views, fault, inject, **options)
        _ROWS.append(tally.row())
        assert tally.lost == []
        assert tally.unlogged == []
        assert tally.differing == [] or not one_answer
        return tally

    return run
