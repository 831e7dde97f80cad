"""CPU time by process of a stack: what a record costs, which a busy machine blurs less than a rate."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.local.process import marked_processes
from deploy.local.stack import RunningStack

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(stack: RunningStack) -> dict[str, float]:
    """Seconds so far by name of the stack's processes, each with what it started."""
    sessions = {record.pid: name for name, record in stack.processes.items()}
    found: dict[str, float] = {}
    for record in marked_processes(str(stack.plan.root)):
        try:
            name = sessions.get(os.getsid(record.pid), "other")
            found[name] = found.get(name, 0.0) + _used_s(Path(f"/proc/{record.pid}"))
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ended meanwhile
    return found


def thread_cpu_s(pid: int) -> dict[str, float]:
    """Seconds so far by name of the process's threads; those of one name together.

    Linux keeps 15 characters of a name. Threads that ended meanwhile are not counted.
    """
    found: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text("utf-8").strip()
            found[name] = found.get(name, 0.0) + _used_s(task)
        except (ProcessLookupError, FileNotFoundError):
            continue
    return found


def cost_line(before: dict[str, float], after: dict[str, float], records: int) -> str:
    """Microseconds of CPU a record by process or thread, the largest first; under 0.1 left out."""
    costs = {n: (after[n] - before.get(n, 0.0)) / records * 1e6 for n in after}
    shown = sorted(((cost, n) for n, cost in costs.items() if cost >= 0.1), reverse=True)
    return ", ".join(f"{name} {cost:.1f}" for cost, name in shown)


def _used_s(folder: Path) -> float:
    fields = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
