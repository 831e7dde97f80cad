"""One process of the stack: started in a session of its own, recognised again, stopped for sure.

A process is named by its pid and its start time, so that a recycled pid is never signalled. Each
one also carries the folder of its stack in its environment: what a crash kept out of the records
is found by that mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import StackError

STACK_MARK = "TIDEMILL_STACK"
_POLL_S = 0.05


@dataclass(frozen=True)
class ProcessRecord:
    """A started process; ``started`` is its start time in clock ticks since the machine's boot."""

    name: str
    pid: int
    started: int
    argv: tuple[str, ...]
    log: str

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return start_ticks(self.pid) == self.started

    def signal_group(self, signum: int) -> None:
        """Signal the process and all it started in its session; gone already is fine."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signum)


def start(
    name: str, argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path
) -> ProcessRecord:
    """Start a process in its own session with its output appended to ``log``.

    Raises StackError if it can't be started.
    """
    try:
        with log.open("ab") as out:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
    except OSError as error:
        raise StackError(f"can't start {name} ({argv[0]}): {error}") from error
    # the records follow the process from here on; Popen would warn when it is forgotten alive
    child.returncode = 0
    # a process that is over already has no start time: 0 is never alive
    return ProcessRecord(name, child.pid, start_ticks(child.pid) or 0, tuple(argv), str(log))


def stop_all(records: Iterable[ProcessRecord], grace_s: float) -> list[str]:
    """SIGTERM, then after ``grace_s`` SIGKILL; returns the names that had to be killed."""
    running = [record for record in records if record.alive()]
    for record in running:
        record.signal_group(signal.SIGTERM)
        record.signal_group(signal.SIGCONT)  # a stopped process can't see the SIGTERM
    left = _wait_gone(running, grace_s)
    for record in left:
        record.signal_group(signal.SIGKILL)
    stuck = _wait_gone(left, 10.0)
    if stuck:
        named = ", ".join(f"{record.name} (pid {record.pid})" for record in stuck)
        raise StackError(f"{named} survived SIGKILL: waits in the kernel, look at its disk")
    for record in running:
        _reap(record.pid)
    return [record.name for record in left]


def _wait_gone(records: list[ProcessRecord], timeout_s: float) -> list[ProcessRecord]:
    end = time.monotonic() + timeout_s
    while left := [record for record in records if record.alive()]:
        if time.monotonic() >= end:
            return left
        time.sleep(_POLL_S)
    return []


def start_ticks(pid: int) -> int | None:
    """Start time of a running process; None if there is none or only its zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the name in parentheses may hold anything, so count from its end
    fields = stat.rpartition(")")[2].split()
    # a zombie whose other threads still end holds its ports a moment longer
    over = fields[0] in "ZX" and int(fields[17]) <= 1
    return None if over else int(fields[19])


def _reap(pid: int) -> None:
    """Take the zombie away if it is a child of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def marked_processes(mark: str) -> list[ProcessRecord]:
    """All running processes that carry the mark of a stack, this one and its parents excepted."""
    own = _ancestors(os.getpid())
    needle = f"{STACK_MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in own:
            continue
        try:
            if needle not in (entry / "environ").read_bytes().split(b"\0"):
                continue
        except OSError:
            continue
        pid = int(entry.name)
        if ticks := start_ticks(pid):
            found.append(ProcessRecord(f"leftover-{pid}", pid, ticks, (), ""))
    return found


def kill_marked(mark: str) -> int:
    """End what a crash left behind, one by one (they may share no group); returns how many."""
    found = 0
    # again until there is none: a process may have been on its way from fork to exec
    while left := marked_processes(mark):
        for record in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, signal.SIGKILL)
        if _wait_gone(left, 10.0):
            raise StackError(f"pid {left[0].pid} survived SIGKILL: waits in the kernel")
        found += len(left)
    return found


def _ancestors(pid: int) -> set[int]:
    line = set()
    while pid > 0:
        line.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return line
