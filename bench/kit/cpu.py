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
            found[name] = found.get(name, 0.0) + _own_cpu_s(record.pid)
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ended meanwhile
    return found


def cost_line(before: dict[str, float], after: dict[str, float], records: int) -> str:
    """Microseconds of CPU a record by process, the largest first; those under 0.1 left out."""
    costs = {n: (after[n] - before.get(n, 0.0)) / records * 1e6 for n in after}
    shown = sorted(((cost, n) for n, cost in costs.items() if cost >= 0.1), reverse=True)
    return ", ".join(f"{name} {cost:.1f}" for cost, name in shown)


def _own_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
