"""The machine: versions, memory, cores, governor, shared memory, limits. Reads files, no service."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from deploy.doctor.finding import Finding, note, ok, problem
from deploy.errors import ToolError
from deploy.tools import Choice, Tools

_SHM = "/dev/shm"  # noqa: S108  # the device, not a scratch file
STACK_MIB = 3000  # broker, Redis, Flink with one TaskManager and a worker, measured with room
_MIN_SHM_MIB = 64  # torch's shared tensors; a container's default
_MIN_FILES = 4096  # a broker keeps three files open a segment
_MIN_DISK_MIB = 2048


@dataclass(frozen=True)
class MachineFiles:
    """Where the kernel tells about itself; tests hand in a folder of their own."""

    root: Path = field(default_factory=lambda: Path("/"))

    def text(self, path: str) -> str:
        """Content without the final newline, empty if there is no such file."""
        try:
            return (self.root / path).read_text().strip()
        except OSError:
            return ""


def check_machine(tools: Tools, folder: Path, files: MachineFiles | None = None) -> list[Finding]:
    """All checks of the machine; ``folder`` is where a stack's data would lie."""
    files = files or MachineFiles()
    return [
        check_python(sys.version_info[:2]),
        *check_tools(tools),
        check_memory(files),
        check_governor(files),
        check_cores(files, len(os.sched_getaffinity(0)), os.cpu_count() or 1),
        *check_threads(dict(os.environ), len(os.sched_getaffinity(0))),
        check_shared_memory(Path(_SHM)),
        check_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        check_disk(folder),
    ]


def check_python(version: tuple[int, ...]) -> Finding:
    """PyFlink 2.3 and its Java bridge are built for this one."""
    found = ".".join(map(str, version))
    if version == (3, 11):
        return ok("python", found)
    return problem("python", found, "use Python 3.11: PyFlink's thread mode is built for it")


def check_tools(tools: Tools) -> Iterator[Finding]:
    """Java, Redis and jars."""
    choices: dict[str, Callable[[], Choice]] = {
        "java program": lambda: tools.java_choice,
        "redis program": lambda: tools.redis_choice,
    }
    for name, choose in choices.items():
        try:
            yield ok(name, choose().why)
        except ToolError as error:
            yield problem(name, "none", str(error))
    try:
        missing = tools.missing_jars()
    except ToolError as error:
        yield problem("flink package", "none", str(error))
        return
    if missing:
        yield note("jars", f"not here yet: {', '.join(missing)}", "tidemill up fetches them")
    else:
        yield ok("jars", f"all in {tools.cache_dir}")


def check_memory(files: MachineFiles) -> Finding:
    """Memory that is free now."""
    lines = dict(line.split(":", 1) for line in files.text("proc/meminfo").splitlines())
    free_mib = int(lines.get("MemAvailable", "0 kB").split()[0]) >> 10
    limit = files.text("sys/fs/cgroup/memory.max")
    if limit.isdigit():
        used = int(files.text("sys/fs/cgroup/memory.current") or 0)
        free_mib = min(free_mib, (int(limit) - used) >> 20)
    if free_mib >= STACK_MIB:
        return ok("memory", f"{free_mib} MiB free")
    return problem(
        "memory", f"{free_mib} MiB free", f"a local stack needs {STACK_MIB} MiB: free some"
    )


def check_governor(files: MachineFiles) -> Finding:
    """A saving governor adds milliseconds to each wake-up at a low rate."""
    governor = files.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if not governor:
        return ok("cpu governor", "not told by this machine (virtual, or fixed)")
    if governor == "performance":
        return ok("cpu governor", governor)
    return note(
        "cpu governor", governor, "cpupower frequency-set -g performance: latency at low rates"
    )


def check_cores(files: MachineFiles, allowed: int, present: int) -> Finding:
    """Cores that this process may use, by affinity, cpuset and quota."""
    cpuset = files.text("sys/fs/cgroup/cpuset.cpus.effective")
    quota, _, period = files.text("sys/fs/cgroup/cpu.max").partition(" ")
    shown = f"{allowed} of {present} cores" + (f", cpuset {cpuset}" if cpuset else "")
    if quota.isdigit() and period.isdigit() and int(quota) < allowed * int(period):
        share = int(quota) / int(period)
        return note(
            "cores",
            f"{shown}, quota {share:.1f} cores",
            "a quota stops all threads for the rest of its period: give a cpuset instead",
        )
    if allowed < 2:
        return note("cores", shown, "give at least 2: the broker, Flink and the worker share them")
    return ok("cores", shown)


def check_threads(environ: dict[str, str], cores: int) -> Iterator[Finding]:
    """Thread pools of the numeric libraries, which every worker process would start anew."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        value = environ.get(name)
        if value and value.isdigit() and int(value) > cores:
            yield note(
                "threads",
                f"{name}={value} on {cores} cores",
                f"unset it or set it to {cores} at most: threads beyond the cores wait for each other",
            )
            return
    yield ok("threads", "the worker sets its own (worker.threads)")


def check_shared_memory(device: Path) -> Finding:
    """Space of /dev/shm."""
    try:
        size = os.statvfs(device)
    except OSError:
        return note(_SHM, "none", "mount a tmpfs of 64 MiB or more (docker: shm_size)")
    free_mib = size.f_bavail * size.f_frsize >> 20
    if free_mib >= _MIN_SHM_MIB:
        return ok(_SHM, f"{free_mib} MiB free")
    return note(_SHM, f"{free_mib} MiB free", f"give it {_MIN_SHM_MIB} MiB (docker: shm_size)")


def check_files(limit: int) -> Finding:
    """How many files a process may hold open."""
    if limit >= _MIN_FILES or limit == resource.RLIM_INFINITY:
        return ok("open files", str(limit))
    return note("open files", str(limit), f"ulimit -n {_MIN_FILES}: the broker keeps many open")


def check_disk(folder: Path) -> Finding:
    """Space where a stack's data would lie."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    size = os.statvfs(existing)
    free_mib = size.f_bavail * size.f_frsize >> 20
    if not os.access(existing, os.W_OK):
        return problem("disk", f"{existing} can't be written", "choose another folder with --data")
    if free_mib < _MIN_DISK_MIB:
        return problem(
            "disk",
            f"{free_mib} MiB free at {existing}",
            f"free {_MIN_DISK_MIB} MiB: checkpoints fail on a full disk",
        )
    return ok("disk", f"{free_mib} MiB free at {existing}")
