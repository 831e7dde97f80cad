"""Ends a stack, whole or crashed: by its record first, then whatever still carries its mark."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.local.process import kill_marked, stop_all
from deploy.local.state import StackState, load_state, stack_lock

STOP_GRACE_S = 8.0  # a broker with open segments takes the longest


def down(root: Path, instance: str | None = None) -> list[str]:
    """End the stack of ``root``, crashed or not; returns what had to be killed.

    With ``instance`` only that start of it: a later one in the same folder is left alone.
    """
    root = root.absolute()
    if not root.is_dir():
        return []
    with stack_lock(root):
        state = load_state(root)
        if state is None:
            return leftovers(root) if instance is None else []
        return end_recorded(state) if instance in (None, state.instance) else []


def leftovers(root: Path) -> list[str]:
    """End what runs for ``root`` without a record; returns what it was."""
    number = kill_marked(str(root))
    return [f"{number} processes without a record"] if number else []


def end_recorded(state: StackState) -> list[str]:
    """End what the record names, then what it missed; returns the names that had to be killed."""
    records = list(state.processes.values())
    # programs first, then Flink, then what they write to
    first = [r for r in records if r.name not in ("kafka", "redis")]
    killed = stop_all(first, STOP_GRACE_S) + stop_all(records, STOP_GRACE_S)
    kill_marked(str(state.plan.root))
    socket_folder = state.plan.worker_socket.parent
    if socket_folder != state.plan.root:
        shutil.rmtree(socket_folder, ignore_errors=True)
    state.plan.state_path.unlink(missing_ok=True)
    return killed
