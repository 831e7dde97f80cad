"""Contract of the supervisor: a worker that dies or hangs is replaced, and none outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.messages import Drain
from models.worker_config import EXIT_LOAD, EXIT_OK, WorkerConfig
from tests.workers import WorkerProcess, running, tricky_model, values, wait_until


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    """A supervised worker of the tricky model."""
    model = tricky_model(tmp_path / "model")
    config = WorkerConfig(str(model), f"unix:{tmp_path / 'w.sock'}")
    with running(tmp_path, config, supervised=True) as started:
        yield started


def child(worker: WorkerProcess) -> int:
    """Process id of the serving child."""
    (pid,) = worker.children()
    return pid


def alive(pid: int) -> bool:
    """False too for a process that is dead and waits to be collected."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def replaced(worker: WorkerProcess, old: int) -> bool:
    """True once another child is there."""
    return worker.children() not in ([], [old])


def test_a_killed_worker_is_replaced_and_its_clients_know_at_once(worker: WorkerProcess) -> None:
    client = worker.client()
    old = child(worker)
    os.kill(old, signal.SIGKILL)
    assert client.closed()
    wait_until(lambda: replaced(worker, old), "another child")
    assert values(worker.client().score(1, [(1, 2)])) == [3]
    assert f"worker ended with {-signal.SIGKILL}" in worker.text()


def test_a_stopped_worker_is_found_and_replaced(worker: WorkerProcess) -> None:
    client = worker.client()
    old = child(worker)
    wait_until(lambda: "is ready and watched" in worker.text(), "the supervisor knows")
    os.kill(old, signal.SIGSTOP)
    client.send(1, [(1, 2)])
    wait_until(lambda: replaced(worker, old), "another child")
    assert not alive(old)
    assert client.closed()
    assert values(worker.client().score(1, [(1, 2)])) == [3]
    assert "no answer to 3 health probes" in worker.text()


def test_a_batch_that_never_ends_is_found_by_its_age(worker: WorkerProcess) -> None:
    client = worker.client()
    old = child(worker)
    wait_until(lambda: "is ready and watched" in worker.text(), "the supervisor knows")
    client.send(1, [(1000, 3600)])
    wait_until(lambda: replaced(worker, old), "another child")
    assert "one batch runs for" in worker.text()
    assert values(worker.client().score(1, [(1, 2)])) == [3]


def test_a_clean_stop_drains_and_leaves_nothing(worker: WorkerProcess, tmp_path: Path) -> None:
    client = worker.client()
    serving = child(worker)
    client.send(1, [(1000, 0.3)])
    worker.process.terminate()
    first, second = client.receive(), client.receive()
    answer = second if isinstance(first, Drain) else first
    assert values(answer) == [pytest.approx(1000.3)]
    assert worker.process.wait(60) == EXIT_OK
    assert not alive(serving)
    assert [path.name for path in tmp_path.iterdir() if path.is_socket()] == []


def test_ctrl_c_is_a_clean_stop_too(worker: WorkerProcess) -> None:
    worker.client()
    assert worker.stop(signal.SIGINT) == EXIT_OK


def test_a_worker_does_not_outlive_its_supervisor(worker: WorkerProcess) -> None:
    client = worker.client()
    serving = child(worker)
    worker.process.kill()
    wait_until(lambda: not alive(serving), "the child is gone")
    assert client.closed()


def test_a_model_that_can_not_be_loaded_is_not_tried_for_ever(tmp_path: Path) -> None:
    model = tricky_model(tmp_path / "model")
    (model / "tricky.py").write_text("raise ImportError('no such thing')\n")
    config = WorkerConfig(str(model), f"unix:{tmp_path / 'w.sock'}")
    with running(tmp_path, config, supervised=True) as worker:
        assert worker.process.wait(60) == EXIT_LOAD
        assert "no such thing" in worker.text()


def test_a_restart_shows_in_the_metrics(worker: WorkerProcess) -> None:
    worker.client()
    old = child(worker)
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: replaced(worker, old), "another child")
    worker.client()
    command = Path(f"/proc/{child(worker)}/cmdline").read_text()
    assert "--restarts=1" in command
