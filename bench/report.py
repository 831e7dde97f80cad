"""How a bench reports: the conditions it ran under, then one line a value."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VERSIONS = ("apache-flink", "torch", "numpy", "confluent-kafka", "redis", "orjson")


@dataclass(frozen=True, slots=True)
class Report:
    """Prints `BENCH.NAME VALUE UNIT`, at once, so that a cut run has told what it knew."""

    bench: str

    def value(self, name: str, value: float, unit: str) -> None:
        """One measured value; three significant digits at least."""
        shown = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        print(f"{self.bench}.{name} {shown} {unit}", flush=True)

    def note(self, text: str) -> None:
        """A condition of this bench alone."""
        print(f"# {self.bench}: {text}", flush=True)


def conditions() -> Iterator[str]:
    """CPU, cores, load, memory, versions."""
    cores = len(os.sched_getaffinity(0))
    loads = "/".join(f"{load:.2f}" for load in os.getloadavg())
    yield f"{cpu_model()}, {cores} of {os.cpu_count()} cores, load {loads}"
    yield f"{_memory_gb():.1f} GB memory, Linux {platform.release()}"
    yield f"Python {platform.python_version()}, " + ", ".join(
        f"{name} {_version(name)}" for name in VERSIONS
    )


def cpu_model() -> str:
    """As the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
