"""What a deployment looks like from outside, gathered by asking each service."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.errors import FlinkError
from deploy.flink_rest import FlinkRest, JobInfo
from deploy.local.memory import resident_mib
from deploy.local.state import StackState, load_state
from deploy.topics import TopicState, topic_states
from tidemill.errors import TidemillError
from tidemill.settings import Settings

_FULL = "free some space, the job goes on by itself"
_MIN_FREE_MIB = 64  # a checkpoint with full windows of seen tasks and pending rows
_REMEDIES = {
    "No space left on device": f"the disk of the state folder is full: {_FULL}",
    # all that Flink tells of a full or unwritable folder; the cause is in the JobManager's log
    "finalize checkpoint": "checkpoints can't be written: is the disk of execution.checkpointing.dir"
    f" full? If so {_FULL}",
    "NoResourceAvailableException": "too few free slots: start one more TaskManager",
    "Cannot load user class": "a TaskManager runs on an old classpath: restart it",
    "loadedLibraryNames": "flink-python must lie in the cluster's lib folder and not come with the"
    " job (FLINK-37727)",
    "TopicAuthorizationException": "the Kafka user may not use a topic: check its ACLs",
    "UnknownTopicOrPartitionException": "a topic is missing: tidemill topics --create",
}


@dataclass(frozen=True)
class ProcessStatus:
    """One process of the local stack; ``rss_mib`` is resident memory, its children's too."""

    name: str
    pid: int
    alive: bool
    rss_mib: int
    log: str


@dataclass(frozen=True)
class JobStatus:
    """A job that has not ended, with its last failure and checkpoint."""

    id: str
    name: str
    state: str
    restarts: int
    failure: str
    remedy: str
    checkpoints: int
    failed_checkpoints: int
    last_checkpoint_ms: int | None


@dataclass(frozen=True)
class Status:
    """Everything that `tidemill status` shows; an entry of ``problems`` is a line for a user."""

    processes: list[ProcessStatus]
    logs: str | None
    slots_free: int | None
    slots_total: int | None
    jobs: list[JobStatus]
    topics: list[TopicState]
    problems: list[str]


def gather(settings: Settings, root: Path) -> Status:
    """Ask everything; a service that does not answer becomes a problem and no error."""
    state = load_state(root.absolute())
    problems: list[str] = []
    processes = _processes(state)
    problems += [f"{p.name} has ended: see {p.log}" for p in processes if not p.alive]
    problems += disk_problems(state.plan.root, state.plan.checkpoints) if state else []
    overview: dict[str, Any] = {}
    jobs: list[JobStatus] = []
    rest = FlinkRest(settings.flink.address)
    try:
        overview = rest.overview()
        jobs = [job_status(rest, job) for job in rest.jobs() if not job.ended]
    except FlinkError as error:
        problems.append(str(error))
    problems += [f"{job.name}: {job.remedy}" for job in jobs if job.remedy]
    topics: list[TopicState] = []
    try:
        topics = topic_states(settings)
    except TidemillError as error:
        problems.append(str(error))
    problems += [f"topic {topic.name}: {topic.problem}" for topic in topics if topic.problem]
    return Status(
        processes,
        str(state.plan.logs) if state else None,
        overview.get("slots-available"),
        overview.get("slots-total"),
        jobs,
        topics,
        problems,
    )


def job_status(rest: FlinkRest, job: JobInfo) -> JobStatus:
    """State, failures and checkpoints of one job; raises FlinkError."""
    points = rest.checkpoints(job.id)
    counts = points["counts"]
    latest = points["latest"]["completed"]
    failed = (points["latest"]["failed"] or {}).get("failure_message") or ""
    failure = rest.root_cause(job.id) or failed
    return JobStatus(
        id=job.id,
        name=job.name,
        state=job.state,
        restarts=len(rest.exceptions(job.id)),
        failure=failure,
        remedy=remedy(failure) or remedy(failed),
        checkpoints=counts["completed"],
        failed_checkpoints=counts["failed"],
        last_checkpoint_ms=latest["end_to_end_duration"] if latest else None,
    )


def disk_problems(*folders: Path) -> list[str]:
    """A line for each folder whose disk is full or all but full."""
    found = []
    for folder in folders:
        try:
            free_mib = shutil.disk_usage(folder).free >> 20
        except OSError as error:
            found.append(f"the state folder {folder} can't be read: {error.strerror}")
            continue
        if free_mib < _MIN_FREE_MIB:
            found.append(
                f"the disk of the state folder {folder} is full ({free_mib} MiB left): {_FULL}"
            )
    return found


def remedy(failure: str) -> str:
    """What to do about a failure that we know; empty if we don't."""
    return next((text for sign, text in _REMEDIES.items() if sign in failure), "")


def _processes(state: StackState | None) -> list[ProcessStatus]:
    if state is None:
        return []
    resident = resident_mib(record.pid for record in state.processes.values())
    return [
        ProcessStatus(
            name, record.pid, record.alive(), resident[record.pid], _log(state, name, record.log)
        )
        for name, record in state.processes.items()
    ]


def _log(state: StackState, name: str, output: str) -> str:
    written = state.plan.logs / f"{name}.log"
    return str(written) if written.is_file() else output
