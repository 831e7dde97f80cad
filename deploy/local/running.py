"""A stack that runs: its addresses, its processes, and what tests and operators do to them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from deploy.errors import StackError
from deploy.local import ready
from deploy.local.ending import STOP_GRACE_S, down
from deploy.local.plan import StackPlan
from deploy.local.ports import HeldPorts
from deploy.local.process import ProcessRecord, start, stop_all
from deploy.local.reaper import Guard
from deploy.local.services import Service, Services
from deploy.local.state import StackState
from deploy.tools import Tools

_START_TIMEOUT_S = 90.0  # a cold start on a busy machine takes 20


class RunningStack:
    """A stack that runs; every method may block for as long as a service takes to start or stop."""

    def __init__(self, state: StackState, tools: Tools, guard: Guard | None = None) -> None:
        self._state = state
        self._guard = guard
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
        stop_all([record], STOP_GRACE_S)
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
        killed = down(self.plan.root, self._state.instance)
        if self._guard is not None:
            self._guard.release()
            self._guard = None
        return killed

    def __enter__(self) -> RunningStack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
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


def _finish(preparing: subprocess.Popen[bytes] | None, log: Path) -> None:
    if preparing is None:
        return
    if preparing.wait(timeout=_START_TIMEOUT_S) != 0:
        raise StackError(f"the broker's folder can't be prepared:\n{ready.tail(log)}")
