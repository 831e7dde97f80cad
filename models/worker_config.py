"""How a worker process is started: one value, its command line, its exit codes.

Light on purpose: the supervisor and the command line import it, and they must stay small.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

EXIT_OK = 0
EXIT_SETTINGS = 2  # the address, the TLS files or the description of the model are wrong
EXIT_GOLDEN = 70  # the model gives other answers than when it was exported
EXIT_LOAD = 71  # the model's files can't be loaded or its warm-up raised
EXIT_ADDRESS = 72  # the address can't be listened on (now)
EXIT_POISONED = 73  # the accelerator's context is broken; a new process can go on


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """All that a worker process needs to know; addresses as text (`unix:PATH`, `tcp://HOST:PORT`)."""

    model: str
    address: str
    health: str = ""
    metrics: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    allow_plain_tcp: bool = False
    threads: int = 1
    device: str = "cpu"
    credits: int = 2
    drain_s: float = 5.0
    restarts: int = 0
    parent: int = 0
    log_format: str = "human"
    log_level: str = "INFO"

    def command(self) -> list[str]:
        """The command that starts it."""
        options = [
            f"--{name}={value}"
            for name, value in asdict(self).items()
            if value not in ("", False) and name not in _FLAGS
        ]
        flags = [f"--{name}" for name in _FLAGS if getattr(self, name)]
        return [sys.executable, "-m", "models.worker", *options, *flags]


_FLAGS = ("allow_plain_tcp",)


def parse_command(arguments: Sequence[str]) -> WorkerConfig:
    """The inverse of `WorkerConfig.command`, from after the module's name. Exits 2 on nonsense."""
    parser = argparse.ArgumentParser("models.worker", description="Serve a model (one process).")
    kinds: dict[str, Any] = {"int": int, "float": float, "str": str}
    for item in fields(WorkerConfig):
        if item.name in _FLAGS:
            parser.add_argument(f"--{item.name}", action="store_true")
        else:
            needed = item.name in ("model", "address")
            kind = kinds[str(item.type)]
            parser.add_argument(f"--{item.name}", type=kind, required=needed)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value}
    return WorkerConfig(**given)
