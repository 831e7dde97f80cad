"""Flink's REST interface: the few requests that we make, with errors that say what was asked."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from deploy.errors import FlinkError

_TIMEOUT_S = 10.0
_POLL_S = 0.2


@dataclass(frozen=True)
class JobInfo:
    """One job of the cluster; times in ms since the epoch."""

    id: str
    name: str
    state: str
    start_ms: int
    duration_ms: int

    @property
    def ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in ("FINISHED", "CANCELED", "FAILED")


class FlinkRest:
    """Requests to one JobManager at ``host:port``; every method may raise FlinkError."""

    def __init__(self, address: str) -> None:
        self.address = address

    def overview(self) -> dict[str, Any]:
        """Slots, TaskManagers and counts of jobs, as Flink tells them."""
        return self.get("/overview")

    def jobs(self) -> list[JobInfo]:
        """All jobs that the JobManager remembers, the newest first."""
        found = [
            JobInfo(job["jid"], job["name"], job["state"], job["start-time"], job["duration"])
            for job in self.get("/jobs/overview")["jobs"]
        ]
        return sorted(found, key=lambda job: -job.start_ms)

    def find(self, name: str) -> JobInfo | None:
        """The newest job of that name which has not ended."""
        return next((job for job in self.jobs() if job.name == name and not job.ended), None)

    def job(self, job_id: str) -> dict[str, Any]:
        """Vertices, their tasks' states and counts."""
        return self.get(f"/jobs/{job_id}")

    def state(self, job_id: str) -> str:
        """RUNNING, RESTARTING, FAILED, ..."""
        return str(self.job(job_id)["state"])

    def running(self, job_id: str) -> bool:
        """Whether every task of the job runs, which is later than the job's own state says."""
        job = self.job(job_id)
        return job["state"] == "RUNNING" and all(
            vertex["status"] == "RUNNING" for vertex in job["vertices"]
        )

    def wait_running(self, job_id: str, timeout_s: float = 60.0) -> None:
        """Return once every task runs."""
        end = time.monotonic() + timeout_s
        while not self.running(job_id):
            if self.state(job_id) in ("FINISHED", "CANCELED", "FAILED"):
                raise FlinkError(f"job {job_id} ended: {self.root_cause(job_id)}")
            if time.monotonic() > end:
                raise FlinkError(
                    f"job {job_id} does not run after {timeout_s:.0f} s:"
                    f" {self.root_cause(job_id) or 'too few free slots?'}"
                )
            time.sleep(_POLL_S)

    def exceptions(self, job_id: str) -> list[str]:
        """The newest failures, first the newest, each with its stack trace."""
        history = self.get(f"/jobs/{job_id}/exceptions").get("exceptionHistory", {})
        return [str(entry.get("stacktrace", "")) for entry in history.get("entries", [])]

    def root_cause(self, job_id: str) -> str:
        """The one line that says why the job failed last; empty if it never did."""
        traces = self.exceptions(job_id)
        return root_cause(traces[0]) if traces else ""

    def checkpoints(self, job_id: str) -> dict[str, Any]:
        """Counts, the latest of each kind and their history."""
        return self.get(f"/jobs/{job_id}/checkpoints")

    def task_managers(self) -> list[dict[str, Any]]:
        """The TaskManagers that have registered."""
        return list(self.get("/taskmanagers")["taskmanagers"])

    def cancel(self, job_id: str) -> None:
        """End a job without a savepoint; returns once it has ended."""
        self._send("PATCH", f"/jobs/{job_id}?mode=cancel")
        self._wait_ended(job_id)

    def stop(self, job_id: str, target: str | None = None, timeout_s: float = 120.0) -> str:
        """Stop with a savepoint and return its path; without ``target`` into the default folder."""
        wanted: dict[str, Any] = {"drain": False}
        if target:
            wanted["targetDirectory"] = target
        return self._savepoint(job_id, "stop", wanted, timeout_s)

    def savepoint(self, job_id: str, target: str | None = None, timeout_s: float = 120.0) -> str:
        """Take a savepoint of a job that goes on, and return its path."""
        wanted: dict[str, Any] = {"cancel-job": False}
        if target:
            wanted["target-directory"] = target
        return self._savepoint(job_id, "savepoints", wanted, timeout_s)

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a GET."""
        return self._send("GET", path)

    def _savepoint(self, job_id: str, verb: str, wanted: dict[str, Any], timeout_s: float) -> str:
        request = self._send("POST", f"/jobs/{job_id}/{verb}", wanted)["request-id"]
        end = time.monotonic() + timeout_s
        while True:
            answer = self.get(f"/jobs/{job_id}/savepoints/{request}")
            if answer["status"]["id"] == "COMPLETED":
                break
            if time.monotonic() > end:
                raise FlinkError(f"the savepoint of {job_id} is not done after {timeout_s:.0f} s")
            time.sleep(_POLL_S)
        operation = answer["operation"]
        if cause := operation.get("failure-cause"):
            raise FlinkError(
                f"the savepoint of {job_id} failed: {root_cause(cause.get('stack-trace', ''))}"
            )
        if verb == "stop":
            self._wait_ended(job_id)
        return str(operation["location"])

    def _wait_ended(self, job_id: str, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while self.state(job_id) not in ("FINISHED", "CANCELED", "FAILED"):
            if time.monotonic() > end:
                raise FlinkError(f"job {job_id} has not ended after {timeout_s:.0f} s")
            time.sleep(_POLL_S)

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(  # always http
            f"http://{self.address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")
            raise FlinkError(
                f"Flink at {self.address} refused {method} {path}: {_first_error(said)}"
            ) from error
        except OSError as error:
            raise FlinkError(
                f"Flink at {self.address} does not answer ({error}): is it up?"
                " flink.address names its REST port"
            ) from error
        return dict(json.loads(text)) if text.strip() else {}


def root_cause(trace: str) -> str:
    """The last `Caused by` of a Java stack trace, else its first line, on one line."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return causes[-1] if causes else (lines[0] if lines else "")


def _first_error(body: str) -> str:
    try:
        errors = json.loads(body)["errors"]
    except (ValueError, KeyError, TypeError):
        return body[:200]
    return root_cause(str(errors[-1])) if errors else body[:200]
