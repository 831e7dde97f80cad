"""What a stack is made of: its folders, ports and sizes. Pure: nothing is created here."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

_MAX_SOCKET_PATH = 100  # the kernel takes 107 bytes
METRIC_PORTS = 8  # one for the JobManager and each TaskManager


@dataclass(frozen=True)
class Ports:
    """The ports of one stack, all on 127.0.0.1."""

    kafka: int
    controller: int
    redis: int
    flink_rest: int
    flink_rpc: int
    worker_metrics: int
    relay_metrics: int
    flink_metrics: tuple[int, ...]

    @classmethod
    def needed(cls) -> int:
        """How many ports a stack takes."""
        return len(fields(cls)) - 1 + METRIC_PORTS

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Ports:
        """Deal out ``needed()`` free ports."""
        single = len(fields(cls)) - 1
        return cls(*numbers[:single], tuple(numbers[single:]))  # type: ignore[arg-type,call-arg]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the state file."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Sizes:
    """Memory of the services in MiB; small, since everything shares one machine."""

    broker_heap: int = 512
    redis_max: int = 2048
    job_manager_heap: int = 256
    task_heap: int = 464
    task_managed: int = 128
    task_network: int = 96


@dataclass(frozen=True)
class StackPlan:
    """Where one stack keeps what; ``root`` is absolute and belongs to this stack alone."""

    root: Path
    ports: Ports
    sizes: Sizes = field(default_factory=Sizes)

    @property
    def state_path(self) -> Path:
        """Record of what runs (see state)."""
        return state_path(self.root)

    @property
    def settings_path(self) -> Path:
        """The settings that programs use with this stack."""
        return self.root / "tidemill.toml"

    @property
    def logs(self) -> Path:
        """Logs of all services."""
        return self.root / "logs"

    @property
    def kafka_dir(self) -> Path:
        """Data of the broker."""
        return self.root / "kafka"

    @property
    def kafka_config(self) -> Path:
        """The broker's properties."""
        return self.root / "conf" / "broker.properties"

    @property
    def redis_dir(self) -> Path:
        """Data of Redis."""
        return self.root / "redis"

    @property
    def redis_config(self) -> Path:
        """Configuration of Redis."""
        return self.root / "conf" / "redis.conf"

    @property
    def flink_conf(self) -> Path:
        """FLINK_CONF_DIR."""
        return self.root / "conf" / "flink"

    @property
    def checkpoints(self) -> Path:
        """Where jobs keep their checkpoints: the state folder whose disk must not fill up."""
        return self.root / "flink" / "checkpoints"

    @property
    def savepoints(self) -> Path:
        """Default target of `tidemill stop`."""
        return self.root / "flink" / "savepoints"

    @property
    def flink_tmp(self) -> Path:
        """Scratch space of JobManager and TaskManagers."""
        return self.root / "flink" / "tmp"

    @property
    def worker_socket(self) -> Path:
        """The worker's socket: in the root, or in a short folder if the root's path is too long."""
        inside = self.root / "worker.sock"
        if len(str(inside)) <= _MAX_SOCKET_PATH:
            return inside
        digest = hashlib.sha256(str(self.root).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"tidemill-{digest}" / "worker.sock"

    def folders(self) -> list[Path]:
        """All folders that must exist before the first start."""
        return [
            self.root,
            self.logs,
            self.kafka_dir,
            self.redis_dir,
            self.flink_conf,
            self.checkpoints,
            self.savepoints,
            self.flink_tmp,
            self.worker_socket.parent,
        ]

    @property
    def kafka(self) -> str:
        """Bootstrap address."""
        return f"127.0.0.1:{self.ports.kafka}"

    @property
    def flink_address(self) -> str:
        """Address of Flink's REST interface."""
        return f"127.0.0.1:{self.ports.flink_rest}"


def state_path(root: Path) -> Path:
    """The state file of a stack in ``root``."""
    return root / "stack.json"
