"""What the job keeps in Flink's state is restored: rows on their way, seen tasks, control commands.

Contract: a checkpoint or savepoint taken with rows in every state descriptor is complete, and after
its restore, at another parallelism too, every task is answered and none twice.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.stack import RunningStack
from drift.control import Command
from tests.support.deployment import Deployment
from tests.support.views import Views

PARTITIONS = 4
# Rows are held by a stopped worker; nothing may answer them before it goes on.
OVERLAY: dict[str, dict[str, Any]] = {
    "job": {"sla_ms": 600_000, "checkpoint_interval_ms": 500},
    "batch": {"stall_floor_ms": 600_000.0},
}


@pytest.fixture(scope="module")
def job(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A job without rules on one TaskManager, then on two."""
    folder = tmp_path_factory.mktemp("state")
    with Deployment(stack, "state", folder, OVERLAY, rules=False) as deployed:
        deployed.submit()
        deployed.warm_up()
        yield deployed


@pytest.fixture(scope="module")
def views(job: Deployment) -> Iterator[Views]:
    """The topics that the job writes."""
    with Views(job) as opened:
        yield opened


@pytest.fixture
def second_task_manager(stack: RunningStack, job: Deployment) -> Iterator[str]:
    """One more slot for the length of a test."""
    name = stack.add_task_manager()
    yield name
    job.cancel()  # it would wait for this slot for ever
    stack.kill(name)


def hold(job: Deployment, name: str, count: int = 120) -> list[str]:
    """Stop the worker and send orders; returns their tasks once all are in the lanes' state.

    A bad record is answered without the worker: its answer tells that the job is past what came
    before it in its partition.
    """
    job.stack.kill(job.worker, signal.SIGSTOP)
    tasks = [f"{name}-{number}" for number in range(count)]
    for number, task in enumerate(tasks):
        job.orders.send(task, partition=number % PARTITIONS)
    marks = [f"{name}-mark-{partition}" for partition in range(PARTITIONS)]
    for partition, mark in enumerate(marks):
        named = [("task-id", mark.encode())]
        job.orders.send_raw(b"bad", headers=named, partition=partition)
    job.orders.flush()
    job.answers(marks)
    assert job.answers_now(tasks) == {}
    return tasks


def go_on(job: Deployment) -> None:
    """Let the worker work again."""
    job.stack.kill(job.worker, signal.SIGCONT)


def wait_checkpoints(job: Deployment, count: int) -> None:
    """Wait until so many more checkpoints are complete."""
    done = job.flink.checkpoints(job.job_id)["counts"]["completed"] + count
    end = time.monotonic() + 60
    while job.flink.checkpoints(job.job_id)["counts"]["completed"] < done:
        assert time.monotonic() < end, f"no checkpoint: {job.failed_checkpoints()}"
        time.sleep(0.1)


def test_a_savepoint_with_rows_in_all_state_is_resumed_on_two_task_managers(
    job: Deployment, views: Views, second_task_manager: str
) -> None:
    job.command(5, Command.FREEZE, "a")
    once = [f"once-{number}" for number in range(80)]
    for number, task in enumerate(once):
        job.orders.send(task, partition=number % PARTITIONS)
    job.orders.flush()
    job.answers(once)
    held = hold(job, "held")

    savepoint = job.flink.stop(job.job_id)
    job.configure({**OVERLAY, "job": {**OVERLAY["job"], "parallelism": 2}})
    job.submit(savepoint)
    assert len(job.stack.task_managers) == 2
    go_on(job)

    answers = job.answers(held, timeout_s=60)
    assert {(a["status"], a["tier"]) for a in answers.values()} == {("ok", "full")}
    assert len(views.results_of(held)) == len(held)

    # every lane still knows what it has seen, and the command in force
    for number, task in enumerate([*once, *held]):
        job.orders.send(task, a=99.0, partition=number % PARTITIONS)
    news = [f"new-{partition}" for partition in range(PARTITIONS)]
    for partition, task in enumerate(news):
        job.orders.send(task, partition=partition)
    job.orders.flush()
    for answer in job.answers(news).values():
        assert (answer["control_version"], answer["frozen"]) == (5, ["a"])
    views.results_of(news)
    for task in (*once, *held):
        assert views.result_of(task).json["outputs"]["total"] == 5.0

    assert job.failed_checkpoints() == []

    # and the two of them take over from each other after a crash
    held = hold(job, "crashed")
    wait_checkpoints(job, 2)
    job.stack.kill(second_task_manager)
    job.stack.restart(second_task_manager)
    job.flink.wait_running(job.job_id)
    go_on(job)
    answers = job.answers(held, timeout_s=60)
    assert {answer["status"] for answer in answers.values()} == {"ok"}
    assert {answer["control_version"] for answer in answers.values()} == {5}
    assert len(views.results_of(held)) == len(held)


def test_a_job_that_is_full_of_waiting_rows_can_be_cancelled(job: Deployment) -> None:
    job.configure({**OVERLAY, "job": {**OVERLAY["job"], "max_pending_rows": 64}})
    job.submit()
    try:
        job.stack.kill(job.worker, signal.SIGSTOP)
        for number in range(1000):
            job.orders.send(f"full-{number}")
        job.orders.flush()
        time.sleep(2)  # for the lanes to fill; none of the rows is answered
        assert job.answers_now(f"full-{number}" for number in range(1000)) == {}
        job.flink.cancel(job.job_id)
    finally:
        go_on(job)
