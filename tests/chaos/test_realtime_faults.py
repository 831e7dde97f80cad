"""Faults under traffic in realtime mode: every order is answered, twice only with the same answer."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.chaos.conftest import STALL_MS, RunFault
from tests.support import models
from tests.support.deployment import Deployment

# The length of an outage of Redis; two minutes prove no more than this, and take longer.
REDIS_AWAY_S = float(os.environ.get("TIDEMILL_TEST_REDIS_AWAY_S", "20"))


@pytest.fixture(autouse=True)
def healthy_again(realtime: Deployment) -> None:
    """A fault starts from a job whose answers come from the model."""
    until_full(realtime)


def until_full(job: Deployment, timeout_s: float = 60.0) -> None:
    """Return once the model answers again."""
    end = time.monotonic() + timeout_s
    while True:
        task = f"probe-{time.time_ns()}"
        job.orders.send(task)
        job.orders.flush()
        answer = job.answer(task, timeout_s)
        if answer["tier"] == "full":
            return
        assert time.monotonic() < end, f"not back to the model: {answer}"
        time.sleep(0.2)


def worker_process(job: Deployment) -> psutil.Process:
    """The process that serves the model; the supervisor is its parent."""
    (child,) = psutil.Process(job.stack.processes[job.worker].pid).children()
    return child


def test_a_killed_worker(realtime: Deployment, run_fault: RunFault) -> None:
    tally = run_fault(realtime, "worker kill -9", worker_process(realtime).kill)
    assert set(tally.tiers) == {"full", "rules"} or set(tally.tiers) == {"full"}
    assert tally.overdue == []
    assert tally.repeated == []


def test_a_hung_worker_is_replaced_and_nobody_waits_for_it(
    realtime: Deployment, run_fault: RunFault
) -> None:
    hung = worker_process(realtime)
    tally = run_fault(realtime, "worker SIGSTOP", hung.suspend, count=1500)
    assert set(tally.tiers) == {"full", "rules"}
    assert tally.overdue == []
    waited = [a["done_ms"] - a["ingest_ms"] for a in tally.answers.values() if a["tier"] == "rules"]
    assert max(waited) < realtime.settings.job.sla_ms
    until_full(realtime)
    assert not hung.is_running() or hung.status() == psutil.STATUS_ZOMBIE


def test_a_worker_that_pauses(realtime: Deployment, run_fault: RunFault) -> None:
    """With its supervisor, so that nobody replaces it: it comes back by itself."""

    worker = worker_process(realtime)

    def pause() -> None:
        realtime.stack.kill(realtime.worker, signal.SIGSTOP)
        worker.suspend()
        time.sleep(2 * STALL_MS / 1000)
        worker.resume()
        realtime.stack.kill(realtime.worker, signal.SIGCONT)

    tally = run_fault(realtime, "worker paused for 4 s", pause, count=1000)
    assert set(tally.tiers) == {"full", "rules"}
    assert tally.overdue == []


def test_poison_rows(realtime: Deployment, run_fault: RunFault) -> None:
    def trap_of(number: int) -> int:
        return models.RAISES if number % 50 == 7 else models.NO_TRAP

    tally = run_fault(realtime, "poison rows", lambda: None, trap_of=trap_of)
    assert tally.tiers["error"] == 12
    errors = {task for task, answer in tally.answers.items() if answer["status"] == "error"}
    assert {int(task.rpartition("-")[2]) % 50 for task in errors} == {7}
    assert tally.tiers["full"] + tally.tiers["rules"] == tally.sent - 12


def test_a_killed_task_manager(realtime: Deployment, run_fault: RunFault) -> None:
    def kill() -> None:
        (name,) = realtime.stack.task_managers
        realtime.stack.kill(name)
        realtime.stack.restart(name)

    run_fault(realtime, "TaskManager kill -9", kill)


def test_a_task_manager_that_ends_with_a_batch_pending(
    realtime: Deployment, run_fault: RunFault
) -> None:
    def end() -> None:
        # rows gather behind this one
        realtime.orders.send(f"plug-{time.time_ns()}", trap=models.SLOW)
        realtime.orders.flush()
        (name,) = realtime.stack.task_managers
        realtime.stack.restart(name)  # SIGTERM, and anew

    run_fault(realtime, "TaskManager SIGTERM", end)


def test_a_killed_redis(realtime: Deployment, run_fault: RunFault) -> None:
    def kill() -> None:
        realtime.stack.kill("redis")
        time.sleep(1.5)
        realtime.stack.restart("redis")

    tally = run_fault(realtime, "Redis kill -9", kill)
    assert tally.pending > 0
    assert tally.overdue == []


def test_redis_away_for_long(realtime: Deployment, run_fault: RunFault) -> None:
    def away() -> None:
        realtime.stack.kill("redis")
        time.sleep(REDIS_AWAY_S)
        realtime.stack.restart("redis")

    rate = 50.0
    count = round(rate * 1.5 * REDIS_AWAY_S)
    tally = run_fault(
        realtime, f"Redis away for {REDIS_AWAY_S:.0f} s", away, count=count, rate=rate
    )
    assert tally.pending > count / 4  # most of what came after the half was scored without Redis
    assert tally.overdue == []
    assert tally.repeated == []


def test_a_hung_redis_delays_nothing(realtime: Deployment, run_fault: RunFault) -> None:
    def hang() -> None:
        realtime.stack.kill("redis", signal.SIGSTOP)
        time.sleep(6)
        realtime.stack.kill("redis", signal.SIGCONT)

    tally = run_fault(realtime, "Redis hung for 6 s", hang, count=1500)
    assert tally.pending > 0
    assert tally.overdue == []


def test_a_killed_broker(realtime: Deployment, run_fault: RunFault) -> None:
    def kill() -> None:
        realtime.stack.kill("kafka")
        realtime.stack.restart("kafka")

    run_fault(realtime, "broker kill -9", kill)
