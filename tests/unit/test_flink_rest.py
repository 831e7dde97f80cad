"""Requests to Flink against a scripted JobManager: what is asked, and what errors say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy import status
from deploy.errors import FlinkError
from deploy.flink_rest import FlinkRest, root_cause
from deploy.local.ports import HeldPorts
from deploy.status import disk_problems, job_status, remedy

TRACE = """org.apache.flink.runtime.JobException: Recovery is suppressed
\tat org.apache.flink.Somewhere(Somewhere.java:1)
Caused by: java.util.concurrent.CompletionException: wrapped
\t... 12 more
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
JOB = {"jid": "a1", "name": "scoring", "state": "RUNNING", "start-time": 5, "duration": 9}
OLD = JOB | {"jid": "a0", "state": "CANCELED", "start-time": 1}


class JobManager:
    """Answers by `METHOD path`; remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, Any]] = []
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self.reply
                raise AttributeError(name)

            def reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                key = f"{self.command} {self.path}"
                manager.asked.append((key, json.loads(body) if body else None))
                status, answer = manager.answers.get(key, (404, {"errors": ["Not found"]}))
                text = json.dumps(answer).encode()
                self.send_response_only(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def rest(self) -> FlinkRest:
        return FlinkRest(f"127.0.0.1:{self.server.server_port}")


@pytest.fixture
def manager() -> Iterator[JobManager]:
    manager = JobManager()
    with manager.server as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield manager
        server.shutdown()
        thread.join()


def test_the_root_cause_is_the_last_one() -> None:
    assert root_cause(TRACE) == "java.io.IOException: No space left on device"
    assert root_cause("java.lang.OutOfMemoryError: Metaspace\n\tat x") == (
        "java.lang.OutOfMemoryError: Metaspace"
    )
    assert root_cause("") == ""


def test_a_job_is_found_by_name_only_while_it_lives(manager: JobManager) -> None:
    manager.answers["GET /jobs/overview"] = 200, {"jobs": [OLD, JOB]}
    assert [job.id for job in manager.rest.jobs()] == ["a1", "a0"]
    found = manager.rest.find("scoring")
    assert found is not None
    assert found.id == "a1"
    assert manager.rest.find("other") is None


def test_a_job_runs_when_all_its_tasks_do(manager: JobManager) -> None:
    vertices = [{"status": "RUNNING"}, {"status": "INITIALIZING"}]
    manager.answers["GET /jobs/a1"] = 200, {"state": "RUNNING", "vertices": vertices}
    assert not manager.rest.running("a1")
    vertices[1]["status"] = "RUNNING"
    assert manager.rest.running("a1")


def test_waiting_for_a_job_that_failed_tells_why(manager: JobManager) -> None:
    manager.answers["GET /jobs/a1"] = 200, {"state": "FAILED", "vertices": []}
    manager.answers["GET /jobs/a1/exceptions"] = (
        200,
        {"exceptionHistory": {"entries": [{"stacktrace": TRACE}]}},
    )
    with pytest.raises(FlinkError, match="No space left on device"):
        manager.rest.wait_running("a1")


def test_a_stop_asks_for_a_savepoint_and_returns_its_place(manager: JobManager) -> None:
    manager.answers["POST /jobs/a1/stop"] = 202, {"request-id": "r"}
    manager.answers["GET /jobs/a1/savepoints/r"] = (
        200,
        {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/sp/1"}},
    )
    manager.answers["GET /jobs/a1"] = 200, {"state": "FINISHED", "vertices": []}
    assert manager.rest.stop("a1", "file:/sp") == "file:/sp/1"
    assert manager.asked[0] == (
        "POST /jobs/a1/stop",
        {"drain": False, "targetDirectory": "file:/sp"},
    )


def test_a_failed_savepoint_tells_why(manager: JobManager) -> None:
    manager.answers["POST /jobs/a1/stop"] = 202, {"request-id": "r"}
    manager.answers["GET /jobs/a1/savepoints/r"] = (
        200,
        {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": {"stack-trace": TRACE}}},
    )
    with pytest.raises(FlinkError, match="No space left on device"):
        manager.rest.stop("a1")


def test_a_refusal_names_the_request_and_the_reason(manager: JobManager) -> None:
    with pytest.raises(FlinkError, match=r"refused GET /jobs/none: Not found"):
        manager.rest.job("none")


def test_no_answer_names_the_address_and_the_setting() -> None:
    with HeldPorts(1) as held:
        address = f"127.0.0.1:{held.numbers[0]}"
        with pytest.raises(FlinkError, match=rf"{address} does not answer.*flink\.address"):
            FlinkRest(address).overview()


def test_a_full_disk_that_fails_checkpoints_is_named_with_a_remedy(manager: JobManager) -> None:
    manager.answers["GET /jobs/overview"] = 200, {"jobs": [JOB]}
    manager.answers["GET /jobs/a1/exceptions"] = 200, {"exceptionHistory": {"entries": []}}
    manager.answers["GET /jobs/a1/checkpoints"] = (
        200,
        {
            "counts": {"completed": 3, "failed": 2},
            "latest": {
                "completed": {"end_to_end_duration": 40},
                "failed": {"failure_message": "IOException: No space left on device"},
            },
        },
    )
    found = job_status(manager.rest, manager.rest.jobs()[0])
    assert (found.checkpoints, found.failed_checkpoints) == (3, 2)
    assert "No space left on device" in found.failure
    assert "disk of the state folder is full" in found.remedy


def test_checkpoints_that_can_not_be_written_point_at_the_disk() -> None:
    assert "full" in remedy("Failure to finalize checkpoint.")


def test_a_full_state_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_problems(tmp_path) == []
    monkeypatch.setattr(status, "_MIN_FREE_MIB", 1 << 40)
    (line,) = disk_problems(tmp_path)
    assert str(tmp_path) in line
    assert "free some space" in line
    (gone,) = disk_problems(tmp_path / "gone")
    assert "No such file" in gone


def test_an_unknown_failure_has_no_invented_remedy() -> None:
    assert remedy("java.lang.IllegalStateException: odd") == ""
