"""The local stack on real services: it starts, survives and ends without leaving anything."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.flink_rest import FlinkRest
from deploy.local import ready
from deploy.local.ports import port_is_free
from deploy.local.process import marked_processes
from deploy.local.stack import RunningStack, attach, down, up
from deploy.topics import create_topics, topic_states
from tidemill.settings import Settings, load_settings

OWNER = """
import sys, time
from pathlib import Path
from deploy.local.stack import up
up(Path(sys.argv[1]), owned=sys.argv[2] == "owned")
print("up", flush=True)
time.sleep(600)
"""


LIMITED = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from cli.main import app
app()
"""


def assert_nothing_left(root: Path) -> None:
    """No process, no record, and every port of the settings free again."""
    assert marked_processes(str(root)) == []
    assert not (root / "stack.json").exists()
    if (root / "tidemill.toml").exists():
        settings = load_settings(root / "tidemill.toml", environ={})
        ports = (settings.kafka.bootstrap, settings.flink.address, f":{settings.redis.port}")
        assert [p for p in ports if not port_is_free(int(p.rpartition(":")[2]))] == []


def wait_until(true: Callable[[], bool], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, f"not true after {timeout_s} s"
        time.sleep(0.05)


def redis_listens(root: Path) -> bool:
    """Whether the first service of a start is up, while the others are still on their way."""
    if not (root / "stack.json").exists():
        return False
    return ready.redis_answers(load_settings(root / "tidemill.toml", environ={}).redis.port)


def owner(root: Path, kind: str) -> subprocess.Popen[str]:
    """A process that starts a stack and then does nothing."""
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root), kind], stdout=subprocess.PIPE, text=True
    )


def test_every_service_answers(stack: RunningStack) -> None:
    assert ready.kafka_answers(stack.kafka)
    assert ready.redis_answers(stack.redis_port)
    assert FlinkRest(stack.flink_address).overview()["slots-total"] >= 1
    assert {"kafka", "redis", "jobmanager", "taskmanager-1"} <= stack.processes.keys()


def test_topics_are_made_once_and_take_events_of_any_age(stack_settings: Settings) -> None:
    assert create_topics(stack_settings) == []
    assert [state.problem for state in topic_states(stack_settings)] == [""] * 9


def test_the_cluster_has_the_jars_whose_lack_breaks_restarts(stack: RunningStack) -> None:
    environment = FlinkRest(stack.flink_address).get("/jobmanager/environment")
    classpath = " ".join(environment["classpath"])
    for jar in ("flink-python-", "flink-sql-connector-kafka-", "tidemill-bridge-"):
        assert jar in classpath


def test_two_stacks_live_side_by_side_and_end_apart(tmp_path: Path, stack: RunningStack) -> None:
    slots = FlinkRest(stack.flink_address).overview()["slots-total"]
    running = [name for name, record in stack.processes.items() if record.alive()]
    with up(tmp_path) as other:
        assert other.kafka != stack.kafka
        assert other.add_task_manager() == "taskmanager-2"
        assert FlinkRest(other.flink_address).overview()["slots-total"] == 2
        assert FlinkRest(stack.flink_address).overview()["slots-total"] == slots
        started = list(other.processes.values())
    assert [record.name for record in started if record.alive()] == []
    assert_nothing_left(tmp_path)
    assert ready.kafka_answers(stack.kafka)
    assert ready.redis_answers(stack.redis_port)
    assert [name for name, record in stack.processes.items() if record.alive()] == running


def test_a_stack_is_found_ended_and_started_again_by_other_processes(tmp_path: Path) -> None:
    with owner(tmp_path, "left running") as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        starter.kill()
    found = attach(tmp_path)
    assert all(record.alive() for record in found.processes.values())
    create_topics(load_settings(found.settings_path))
    found.restart("kafka")
    assert {state.problem for state in topic_states(load_settings(found.settings_path))} == {""}
    found.kill("taskmanager-1")
    assert found.task_managers == []
    assert found.add_task_manager() == "taskmanager-2"
    assert down(tmp_path) == []
    assert_nothing_left(tmp_path)


def test_an_owner_killed_without_warning_takes_its_stack_along(tmp_path: Path) -> None:
    with owner(tmp_path, "owned") as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "up\n"
        killed.kill()
    wait_until(lambda: not (tmp_path / "stack.json").exists())
    assert_nothing_left(tmp_path)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(tmp_path: Path, signum: int) -> None:
    with owner(tmp_path, "owned") as interrupted:
        wait_until((tmp_path / "stack.json").exists)
        interrupted.send_signal(signum)
    wait_until(lambda: not (tmp_path / "stack.json").exists())
    assert_nothing_left(tmp_path)


def test_a_start_killed_half_way_is_cleared_by_down(tmp_path: Path) -> None:
    with owner(tmp_path, "left running") as killed:
        wait_until(lambda: redis_listens(tmp_path))
        killed.kill()
    # even without the record, the marks of the processes tell whose they are
    (tmp_path / "stack.json").unlink()
    down(tmp_path)
    assert_nothing_left(tmp_path)


def test_a_full_disk_is_refused_with_its_folder_and_the_remedy(tmp_path: Path) -> None:
    """A disk of 1 MiB, mounted in a namespace of this test alone, so that no root is needed."""
    data = tmp_path / "small"
    data.mkdir()
    script = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$1" -m cli.main up --data "$0"'
    unshare = shutil.which("unshare") or "unshare"
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "--mount", "sh", "-c", script, data, sys.executable],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "500"},
    )
    assert done.returncode == 1, done.stderr
    assert f"the state folder {data} has" in done.stderr
    assert "--data" in done.stderr
    assert "Traceback" not in done.stderr
    assert_nothing_left(data)


def test_a_failing_disk_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    """The kernel refuses every file over 1,000 bytes to this process."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "up", "--data", tmp_path / "run"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "can't be used: File too large" in done.stderr
    assert_nothing_left(tmp_path / "run")
