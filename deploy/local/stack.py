"""Starts and stops a local stack: Kafka, Redis, Flink and our own programs, in one folder.

`up` gives a RunningStack once every service has answered. What it starts is recorded in
`stack.json`, so `attach` and `down` work from another process. With ``owned`` the stack ends with
the process that started it, even if that one is killed (see reaper).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.errors import StackError
from deploy.local.ending import down, end_recorded
from deploy.local.plan import Ports, Sizes, StackPlan
from deploy.local.ports import HeldPorts
from deploy.local.process import kill_marked
from deploy.local.reaper import Guard
from deploy.local.render import settings_toml
from deploy.local.running import RunningStack
from deploy.local.services import Services
from deploy.local.state import StackState, load_state, naming_folder, stack_lock
from deploy.tools import Tools

__all__ = ["RunningStack", "attach", "check_folder", "down", "stack_settings", "up"]

MIN_FREE_MIB = 512  # Kafka's first segments, a checkpoint and the logs; below it services die oddly

Settings = Mapping[str, Mapping[str, Any]]

# What a user's own settings say about a real cluster and its secrets means nothing here.
_NOT_LOCAL = {
    "kafka": ("security_protocol", "sasl_", "ssl_", "client", "java"),
    "redis": ("username", "password", "tls", "db"),
    "worker": ("tls_",),
}


def up(
    root: Path,
    *,
    task_managers: int = 1,
    worker: Sequence[str] | None = None,
    settings: Settings | None = None,
    base: Path | None = None,
    sizes: Sizes | None = None,
    owned: bool = True,
    tools: Tools | None = None,
) -> RunningStack:
    """Start a stack in ``root`` and wait until every service answers.

    ``worker`` is the command of the worker. The settings file is ``base`` (a user's own), with
    ``settings`` on top, with this stack's addresses on top. ``owned`` ends the stack with this
    process. Raises StackError or ToolError; nothing is left running then.
    """
    root = root.absolute()
    tools = tools or Tools()
    tools.fetch_all()
    with stack_lock(root):
        _refuse_second(root)
        check_folder(root)
        with HeldPorts(Ports.needed()) as held:
            plan = StackPlan(root, Ports.of(held.numbers), sizes or Sizes())
            state = StackState(plan)
            guard = _own(root, state.instance) if owned else None
            stack = RunningStack(state, tools, guard)
            try:
                _write_files(plan, tools, base, settings or {})
                stack.start_services(held, task_managers)
                if worker is not None:
                    stack.add_program("worker", worker)
                    stack.wait_ready("worker")
            except BaseException:
                end_recorded(state)
                if guard is not None:
                    guard.release()
                raise
    return stack


def attach(root: Path, tools: Tools | None = None) -> RunningStack:
    """The stack that another process started in ``root``; raises StackError if there is none."""
    state = load_state(root.absolute())
    if state is None:
        raise StackError(f"no stack in {root}: start one with tidemill up")
    return RunningStack(state, tools or Tools())


def check_folder(root: Path) -> None:
    """Raise StackError if the folder can't hold a stack's data."""
    with naming_folder(root):
        root.mkdir(parents=True, exist_ok=True)
        probe = root / ".probe"
        probe.write_bytes(b"\0" * 65536)
        probe.unlink()
        free_mib = shutil.disk_usage(root).free >> 20
    if free_mib < MIN_FREE_MIB:
        raise StackError(
            f"the state folder {root} has {free_mib} MiB left on its disk, a stack needs"
            f" {MIN_FREE_MIB}: free some space, or choose another folder with --data"
        )


def stack_settings(plan: StackPlan, base: Settings, extra: Settings) -> dict[str, dict[str, Any]]:
    """The user's settings less their security, with the stack's addresses on top."""
    addresses: Settings = {
        "kafka": {"bootstrap": plan.kafka},
        "redis": {"host": "127.0.0.1", "port": plan.ports.redis},
        "flink": {"address": plan.flink_address},
        "worker": {"address": f"unix:{plan.worker_socket}"},
        "metrics": {
            "worker_port": plan.ports.worker_metrics,
            "relay_port": plan.ports.relay_metrics,
            "flink_ports": ",".join(map(str, plan.ports.flink_metrics)),
        },
    }
    merged = {
        section: {k: v for k, v in keys.items() if not k.startswith(_NOT_LOCAL.get(section, ()))}
        for section, keys in base.items()
    }
    for source in (extra, addresses):
        for section, keys in source.items():
            merged.setdefault(section, {}).update(keys)
    return merged


def _write_files(plan: StackPlan, tools: Tools, base: Path | None, extra: Settings) -> None:
    given = tomllib.loads(base.read_text()) if base else {}
    with naming_folder(plan.root):
        Services(plan, tools).write_files()
        plan.settings_path.write_text(settings_toml(stack_settings(plan, given, extra)))


def _refuse_second(root: Path) -> None:
    state = load_state(root)
    running = [r.name for r in state.processes.values() if r.alive()] if state else []
    if running:
        raise StackError(
            f"a stack runs in {root} already ({', '.join(running)}): tidemill down, or another"
            " folder with --data"
        )
    kill_marked(str(root))


def _own(root: Path, instance: str) -> Guard:
    atexit.register(_end_at_exit, root, instance, os.getpid())
    return Guard(root, instance)


def _end_at_exit(root: Path, instance: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork of the owner
        with contextlib.suppress(StackError):
            down(root, instance)
