"""The record of a running stack, `stack.json`: what `down` and `status` of another process read.

Written whole and swapped in, so that a crash leaves the old or the new one. It holds the machine's
boot id, since pids and start times mean nothing after a reboot.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from deploy.errors import StackError
from deploy.local.plan import Ports, Sizes, StackPlan, state_path
from deploy.local.process import ProcessRecord

STATE_VERSION = 1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass
class StackState:
    """What runs, or ran until a crash; ``instance`` tells one start in a folder from the next."""

    plan: StackPlan
    processes: dict[str, ProcessRecord] = field(default_factory=dict)
    instance: str = field(default_factory=lambda: uuid4().hex)

    def save(self) -> None:
        """Write the record; raises StackError naming the folder."""
        target = self.plan.state_path
        scratch = target.with_suffix(f".{os.getpid()}.tmp")
        text = json.dumps(
            {
                "version": STATE_VERSION,
                "instance": self.instance,
                "boot_id": boot_id(),
                "root": str(self.plan.root),
                "ports": self.plan.ports.as_dict(),
                "sizes": dataclasses.asdict(self.plan.sizes),
                "processes": [dataclasses.asdict(record) for record in self.processes.values()],
            },
            indent=1,
        )
        with naming_folder(self.plan.root):
            scratch.write_text(text)
            scratch.replace(target)


def load_state(root: Path) -> StackState | None:
    """The record in ``root``, None if there is none; raises StackError if it can't be read."""
    path = state_path(root)
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StackError(f"can't read {path}: {error}. Delete it once nothing runs") from error
    if data.get("version") != STATE_VERSION:
        raise StackError(
            f"{path} is of version {data.get('version')}, this program knows {STATE_VERSION}:"
            " stop the stack with the program that started it"
        )
    return _from_json(root, data)


def _from_json(root: Path, data: dict[str, Any]) -> StackState:
    ports = data["ports"] | {"flink_metrics": tuple(data["ports"]["flink_metrics"])}
    plan = StackPlan(root, Ports(**ports), Sizes(**data["sizes"]))
    state = StackState(plan, instance=data["instance"])
    if data["boot_id"] == boot_id():
        for entry in data["processes"]:
            record = ProcessRecord(**(entry | {"argv": tuple(entry["argv"])}))
            state.processes[record.name] = record
    return state


def boot_id() -> str:
    """Changes with each boot of the machine."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


@contextmanager
def naming_folder(folder: Path) -> Iterator[None]:
    """Turn an OSError into a StackError that names the folder, the fault and the remedy."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise StackError(
            f"the state folder {folder} can't be used: {error.strerror or error} ({where})."
            " Free some space, or choose another folder with --data"
        ) from error


@contextmanager
def stack_lock(root: Path) -> Iterator[None]:
    """One `up` or `down` at a time in a folder; raises StackError if another one is at work."""
    with naming_folder(root):
        root.mkdir(parents=True, exist_ok=True)
        handle = (root / "stack.lock").open("a")
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StackError(f"another tidemill is starting or stopping the stack in {root}") from (
                error
            )
        yield
