"""Scenario of test_full_disk, run in a mount namespace of its own: `python -m tests.chaos.full_disk DIR`.

The folder of the checkpoints is a disk of 96 MiB; it is filled while the job runs, and freed.
Prints one JSON object of what was seen.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from deploy.local.plan import Ports, StackPlan
from deploy.local.stack import RunningStack, up
from deploy.status import gather
from tests.support.deployment import Deployment

_ROWS = 50


def main(folder: Path) -> None:
    """Start, fill, look, free, look again."""
    root = folder / "stack"
    checkpoints = StackPlan(root, Ports.of(range(Ports.needed()))).checkpoints
    checkpoints.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", checkpoints], check=True)
    with up(root) as stack, Deployment(stack, "disk", folder) as job:
        print(json.dumps(_seen(stack, job, checkpoints)))


def _seen(stack: RunningStack, job: Deployment, checkpoints: Path) -> dict[str, object]:
    job.submit()
    before = _answered(job, "before")
    _until(lambda: _completed(job) > 0)
    assert not _problems(stack, job)
    filler = checkpoints / "filler"
    _fill(filler)
    failed = _failed(job)
    _until(lambda: _failed(job) > failed)
    problems = _problems(stack, job)
    during = _answered(job, "during")
    filler.unlink()
    done = _completed(job)
    _until(lambda: _completed(job) > done)
    return {
        "before": before,
        "problems": problems,
        "during": during,
        "after": _answered(job, "after"),
    }


def _answered(job: Deployment, name: str) -> int:
    tasks = [f"{name}-{number}" for number in range(_ROWS)]
    for task in tasks:
        job.orders.send(task)
    job.orders.flush()
    return sum(answer["status"] == "ok" for answer in job.answers(tasks, 120).values())


def _completed(job: Deployment) -> int:
    return int(job.flink.checkpoints(job.job_id)["counts"]["completed"])


def _failed(job: Deployment) -> int:
    return int(job.flink.checkpoints(job.job_id)["counts"]["failed"])


def _problems(stack: RunningStack, job: Deployment) -> list[str]:
    return gather(job.settings, stack.plan.root).problems


def _fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass


def _until(true: Callable[[], bool], timeout_s: float = 90.0) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not true after {timeout_s} s")
        time.sleep(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
