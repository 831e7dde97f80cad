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
import signal
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from deploy.errors import StackError
from deploy.local import ready, reaper
from deploy.local.plan import Ports, Sizes, StackPlan
from deploy.local.ports import HeldPorts
from deploy.local.process import ProcessRecord, kill_marked, marked_processes, start, stop_all
from deploy.local.render import settings_toml
from deploy.local.services import Service, Services
from deploy.local.state import StackState, load_state, naming_folder, stack_lock
from deploy.tools import Tools

MIN_FREE_MIB = 512  # Kafka's first segments, a checkpoint and the logs; below it services die oddly
_START_TIMEOUT_S = 90.0  # a cold start on a busy machine takes 20
_STOP_GRACE_S = 8.0

Settings = Mapping[str, Mapping[str, Any]]


class RunningStack:
    """A stack that runs; every method may block for as long as a service takes to start or stop."""

    def __init__(self, state: StackState, tools: Tools) -> None:
        self._state = state
        self._tools = tools
        self._services = Services(state.plan, tools)

    @property
    def plan(self) -> StackPlan:
        """Folders and ports."""
        return self._state.plan

    @property
    def tools(self) -> Tools:
        """What the services run on."""
        return self._tools

    @property
    def settings_path(self) -> Path:
        """The settings file with this stack's addresses."""
        return self.plan.settings_path

    @property
    def kafka(self) -> str:
        """Bootstrap address of the broker."""
        return self.plan.kafka

    @property
    def redis_port(self) -> int:
        """Port of Redis on 127.0.0.1."""
        return self.plan.ports.redis

    @property
    def flink_address(self) -> str:
        """`host:port` of Flink's REST interface."""
        return self.plan.flink_address

    @property
    def processes(self) -> dict[str, ProcessRecord]:
        """All started processes by name, those that died included."""
        return dict(self._state.processes)

    @property
    def task_managers(self) -> list[str]:
        """Names of the TaskManagers that run."""
        return [
            name
            for name, record in self._state.processes.items()
            if name.startswith("taskmanager-") and record.alive()
        ]

    def add_task_manager(self) -> str:
        """Start one more TaskManager and wait for its slot; returns its name."""
        numbers = [
            int(name.rpartition("-")[2])
            for name in self._state.processes
            if name.startswith("taskmanager-")
        ]
        service = self._services.task_manager(max(numbers, default=0) + 1)
        self._start(service)
        self._wait(service.name)
        return service.name

    def add_program(self, name: str, argv: Sequence[str]) -> None:
        """Start one of our own programs on this stack's settings."""
        self._start(self._services.program(name, tuple(argv)))

    def kill(self, name: str, signum: int = signal.SIGKILL) -> None:
        """Signal a process and its children; the stack does not start it again."""
        self._record(name).signal_group(signum)
        if signum == signal.SIGKILL:
            stop_all([self._record(name)], 0.0)

    def restart(self, name: str) -> None:
        """Stop a process if it runs, start it anew and wait until it answers."""
        record = self._record(name)
        stop_all([record], _STOP_GRACE_S)
        if name.startswith("taskmanager-"):
            service = self._services.task_manager(int(name.rpartition("-")[2]))
        else:
            service = self._service(name, record.argv)
        self._start(service)
        self._wait(name)

    def wait_ready(self, name: str) -> None:
        """Wait until a process answers; raises StackError if it ends or takes too long."""
        self._wait(name)

    def down(self) -> list[str]:
        """End every process of the stack; returns the names that had to be killed."""
        with stack_lock(self.plan.root):
            return _end(self._state)

    def __enter__(self) -> RunningStack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.down()

    def _record(self, name: str) -> ProcessRecord:
        record = self._state.processes.get(name)
        if record is None:
            raise StackError(f"no process {name}: there are {', '.join(self._state.processes)}")
        return record

    def _service(self, name: str, argv: tuple[str, ...]) -> Service:
        known: dict[str, Callable[[], Service]] = {
            "redis": self._services.redis,
            "kafka": self._services.kafka,
            "jobmanager": self._services.job_manager,
        }
        return known[name]() if name in known else self._services.program(name, argv)

    def _start(self, service: Service) -> None:
        log = self.plan.logs / f"{service.name}.out"
        record = start(service.name, service.argv, log, service.env, self.plan.root)
        self._state.processes[service.name] = record
        self._state.save()

    def _wait(self, name: str) -> None:
        ready.wait_for(
            name,
            self._question(name),
            lambda: self._record(name).alive(),
            self._log(name),
            _START_TIMEOUT_S,
        )

    def _log(self, name: str) -> Path:
        written = self.plan.logs / f"{name}.log"
        return written if written.is_file() else self.plan.logs / f"{name}.out"

    def _question(self, name: str) -> Callable[[], bool]:
        plan = self.plan
        if name.startswith("taskmanager-"):
            return lambda: ready.flink_slots(plan.flink_address) >= len(self.task_managers)
        questions: dict[str, Callable[[], bool]] = {
            "redis": lambda: ready.redis_answers(plan.ports.redis),
            "kafka": lambda: ready.kafka_answers(plan.kafka),
            "jobmanager": lambda: ready.flink_slots(plan.flink_address) >= 0,
            "worker": lambda: ready.unix_answers(plan.worker_socket),
        }
        return questions.get(name, lambda: True)

    def start_services(self, held: HeldPorts, task_managers: int) -> None:
        """Start everything at once, then wait for each; the ports are let go on the way."""
        preparing = self._prepare_broker()
        held.release_all()
        self._start(self._services.redis())
        self._start(self._services.job_manager())
        for number in range(1, task_managers + 1):
            self._start(self._services.task_manager(number))
        _finish(preparing, self.plan.logs / "kafka-format.out")
        self._start(self._services.kafka())
        for name in list(self._state.processes):
            self._wait(name)

    def _prepare_broker(self) -> subprocess.Popen[bytes] | None:
        argv = self._services.kafka_format()
        if argv is None:
            return None
        with (self.plan.logs / "kafka-format.out").open("wb") as out:
            env = dict(self._services.kafka().env)
            return subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env=env)


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
            stack = RunningStack(StackState(plan), tools)
            try:
                _write_files(stack, plan, tools, base, settings or {})
                if owned:
                    reaper.guard(root)
                    atexit.register(_end_quietly, root, os.getpid())
                stack.start_services(held, task_managers)
                if worker is not None:
                    stack.add_program("worker", worker)
                    stack.wait_ready("worker")
            except BaseException:
                _end(stack._state)  # noqa: SLF001  # the factory of the class
                raise
    return stack


def attach(root: Path, tools: Tools | None = None) -> RunningStack:
    """The stack that another process started in ``root``; raises StackError if there is none."""
    state = load_state(root.absolute())
    if state is None:
        raise StackError(f"no stack in {root}: start one with tidemill up")
    return RunningStack(state, tools or Tools())


def down(root: Path) -> list[str]:
    """End the stack of ``root``, crashed or not; returns what had to be killed."""
    root = root.absolute()
    if not root.is_dir():
        return []
    with stack_lock(root):
        state = load_state(root)
        if state is None:
            return [f"{kill_marked(str(root))} leftovers"] if marked_processes(str(root)) else []
        return _end(state)


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
    """The user's settings with the stack's addresses on top."""
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
    merged: dict[str, dict[str, Any]] = {}
    for source in (base, extra, addresses):
        for section, keys in source.items():
            merged.setdefault(section, {}).update(keys)
    return merged


def _write_files(
    stack: RunningStack, plan: StackPlan, tools: Tools, base: Path | None, extra: Settings
) -> None:
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


def _finish(preparing: subprocess.Popen[bytes] | None, log: Path) -> None:
    if preparing is None:
        return
    if preparing.wait(timeout=_START_TIMEOUT_S) != 0:
        raise StackError(f"the broker's folder can't be prepared:\n{ready.tail(log)}")


def _end(state: StackState) -> list[str]:
    records = list(state.processes.values())
    # programs first, then Flink, then what they write to
    first = [r for r in records if r.name not in ("kafka", "redis")]
    killed = stop_all(first, _STOP_GRACE_S) + stop_all(records, _STOP_GRACE_S)
    kill_marked(str(state.plan.root))
    socket_folder = state.plan.worker_socket.parent
    if socket_folder != state.plan.root:
        shutil.rmtree(socket_folder, ignore_errors=True)
    state.plan.state_path.unlink(missing_ok=True)
    return killed


def _end_quietly(root: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork of the owner
        with contextlib.suppress(StackError):
            down(root)
