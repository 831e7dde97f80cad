"""Faults under traffic in strict mode: nothing lost and nothing doubled on the result topic."""

from __future__ import annotations

from functools import partial

import psutil

from tests.chaos.conftest import RunFault, overlay
from tests.support.deployment import Deployment
from tests.support.faults import Tally


def assert_exactly_once(tally: Tally) -> None:
    """One committed record an order; the relay delivered it."""
    assert tally.repeated == []
    assert len(tally.answers) == tally.sent
    assert tally.pending == 0


def test_a_killed_task_manager(strict: Deployment, run_fault: RunFault) -> None:
    def kill() -> None:
        (name,) = strict.stack.task_managers
        strict.stack.kill(name)
        strict.stack.restart(name)

    assert_exactly_once(run_fault(strict, "strict: TaskManager kill -9", kill))


def test_a_killed_worker(strict: Deployment, run_fault: RunFault) -> None:
    def kill() -> None:
        (child,) = psutil.Process(strict.stack.processes[strict.worker].pid).children()
        child.kill()

    assert_exactly_once(run_fault(strict, "strict: worker kill -9", kill))


def test_a_killed_broker(strict: Deployment, run_fault: RunFault) -> None:
    def kill() -> None:
        strict.stack.kill("kafka")
        strict.stack.restart("kafka")

    assert_exactly_once(run_fault(strict, "strict: broker kill -9", kill))


def test_a_killed_redis(strict: Deployment, run_fault: RunFault) -> None:
    def kill() -> None:
        strict.stack.kill("redis")
        strict.stack.restart("redis")

    assert_exactly_once(run_fault(strict, "strict: Redis kill -9", kill))


def test_switching_modes_under_traffic(strict: Deployment, run_fault: RunFault) -> None:
    """A savepoint of one mode is resumed in the other, and back; the relay goes on meanwhile."""

    def switch(mode: str) -> None:
        savepoint = strict.flink.stop(strict.job_id)
        strict.configure(overlay(mode))
        strict.submit(savepoint)

    assert_exactly_once(
        run_fault(strict, "strict: switch to realtime", partial(switch, "realtime"))
    )
    # What a realtime job still answers between its savepoint and its end, the strict one, which
    # does not ask Redis, answers again.  The caller keeps the first answer.
    tally = run_fault(
        strict, "realtime: switch to strict", partial(switch, "strict"), one_answer=False
    )
    assert len(tally.answers) == tally.sent
    assert set(tally.differing) <= set(tally.repeated)
    assert len(tally.repeated) < tally.sent / 4
