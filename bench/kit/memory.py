"""Resident memory of a whole stack, shared pages counted once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.kit.errors import BenchError
from deploy.local.process import marked_processes
from deploy.local.stack import RunningStack

Sample = tuple[float, dict[str, float]]  # s since the first, MB by process


def resident_mb(stack: RunningStack) -> dict[str, float]:
    """MB by name of the stack's processes, each with what it started."""
    sessions = {record.pid: name for name, record in stack.processes.items()}
    found: dict[str, float] = {}
    for record in marked_processes(str(stack.plan.root)):
        try:
            name = sessions.get(os.getsid(record.pid), "other")
            found[name] = found.get(name, 0.0) + _pss_mb(record.pid)
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ended meanwhile
    return found


def _pss_mb(pid: int) -> float:
    """Its private pages, and its share of those it has in common with others."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise BenchError(f"/proc/{pid}/smaps_rollup names no Pss: this needs a Linux of 4.14 or newer")


@contextmanager
def sampling(stack: RunningStack, every_s: float) -> Iterator[list[Sample]]:
    """A list that grows by a sample ``every_s`` until the block ends, and one at its end."""
    samples: list[Sample] = []
    stop = threading.Event()
    start_s = time.monotonic()

    def take() -> None:
        samples.append((time.monotonic() - start_s, resident_mb(stack)))

    def sample() -> None:
        while not stop.wait(every_s):
            take()

    thread = threading.Thread(target=sample, name="memory")
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
    take()


def totals(samples: list[Sample]) -> list[tuple[float, float]]:
    """(minutes, MB of all processes) of each sample."""
    return [(at_s / 60, total(sizes)) for at_s, sizes in samples]


def total(sizes: Mapping[str, float]) -> float:
    """MB of all processes together."""
    return sum(sizes.values())
