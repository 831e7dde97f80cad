"""Contract of the worker process, over its real socket: who is answered what, and how it ends."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.messages import Drain, Fail, Reply
from models.wire import MAGIC, encode_drain, encode_score
from models.worker_config import EXIT_ADDRESS, EXIT_LOAD, EXIT_OK, EXIT_SETTINGS, WorkerConfig
from tests.workers import WorkerProcess, running, tricky_model, values, wait_until


@pytest.fixture
def config(tmp_path: Path) -> WorkerConfig:
    """A worker of the tricky model on sockets of this test."""
    model = tricky_model(tmp_path / "model")
    return WorkerConfig(
        str(model), f"unix:{tmp_path / 'w.sock'}", health=f"unix:{tmp_path / 'h.sock'}"
    )


@pytest.fixture
def worker(config: WorkerConfig, tmp_path: Path) -> Iterator[WorkerProcess]:
    """It, running."""
    with running(tmp_path, config) as started:
        yield started


def ask(path: Path, what: str) -> str:
    """A GET to a health socket; the whole answer."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        sock.sendall(f"GET {what} HTTP/1.0\r\n\r\n".encode())
        return b"".join(iter(lambda: sock.recv(65536), b"")).decode()


def test_hello_tells_what_is_served(worker: WorkerProcess) -> None:
    hello = worker.client().hello
    assert (hello.model, hello.version, hello.max_rows, hello.credits) == ("tricky", "7", 16, 2)
    assert (hello.features, hello.outputs, hello.buckets) == (["a", "b"], ["total"], [1, 8, 16])
    assert set(hello.service_us) == {1, 8, 16}
    assert all(us > 0 for us in hello.service_us.values())


def test_each_connection_gets_its_own_rows(worker: WorkerProcess) -> None:
    one, two = worker.client(), worker.client()
    one.send(1, [(1, 2), (3, 4)])
    two.send(1, [(5, 6)])
    assert values(one.receive()) == [3, 7]
    reply = two.receive()
    assert values(reply) == [11]
    assert isinstance(reply, Reply)
    assert struct.unpack("<I", reply.row_ids) == (0,)


def test_frames_that_wait_share_one_batch_and_the_bucket_shows_it(worker: WorkerProcess) -> None:
    blocker, one, two = (worker.client() for _ in range(3))
    blocker.send(1, [(1000, 0.5)])
    wait_until(lambda: '"bucket": 1,' in _health(worker), "the first batch is under way")
    one.send(2, [(1, 1)] * 3)
    two.send(3, [(2, 2)] * 4)
    replies = [client.receive() for client in (blocker, one, two)]
    assert [values(reply) for reply in replies] == [[1000.5], [2] * 3, [4] * 4]
    assert [reply.bucket for reply in replies if isinstance(reply, Reply)] == [1, 8, 8]


def _health(worker: WorkerProcess) -> str:
    return ask(Path(worker.address.removeprefix("unix:")).with_name("h.sock"), "/health")


def test_one_senders_poison_does_not_fail_anothers_rows(worker: WorkerProcess) -> None:
    blocker, bad, good = (worker.client() for _ in range(3))
    blocker.send(1, [(1000, 0.5)])
    wait_until(lambda: '"bucket": 1,' in _health(worker), "the first batch is under way")
    bad.send(2, [(1, 1), (666, 0)])
    good.send(3, [(2, 2)])
    assert bad.receive() == Fail(2, 2, "model_error", "RuntimeError: poisoned row")
    assert values(good.receive()) == [4]
    assert values(bad.score(4, [(1, 1)])) == [2]


def test_a_row_without_a_finite_answer_is_marked_alone(worker: WorkerProcess) -> None:
    reply = worker.client().score(1, [(1, 2), (float("inf"), 1), (3, 4)])
    assert isinstance(reply, Reply)
    assert bytes(reply.status) == b"\0\1\0"
    assert np.frombuffer(reply.outputs, np.float32)[[0, 2]].tolist() == [3, 7]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [([(1.0, 2.0, 3.0)], "wrong_row_bytes"), ([(1.0, 2.0)] * 17, "too_many_rows")],
)
def test_a_frame_for_another_model_fails_and_the_connection_lives(
    worker: WorkerProcess, rows: list[tuple[float, ...]], reason: str
) -> None:
    client = worker.client()
    answer = client.score(1, rows)
    assert isinstance(answer, Fail)
    assert answer.reason == reason
    assert values(client.score(2, [(1, 2)])) == [3]


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        MAGIC + bytes(44),
        encode_drain(),
        encode_score(1, bytes(8), 1, 8, 0, bytes(4))[:4] + b"\x02" + b"\xff" * 60,
    ],
)
def test_foreign_bytes_end_their_own_connection_only(worker: WorkerProcess, raw: bytes) -> None:
    good, bad = worker.client(), worker.client()
    bad.sock.sendall(raw)
    assert bad.closed()
    assert values(good.score(1, [(1, 2)])) == [3]
    wait_until(lambda: "bad_frame" in worker.text(), "the reason is logged")


def test_a_cut_frame_is_logged_and_forgotten(worker: WorkerProcess) -> None:
    good, bad = worker.client(), worker.client()
    bad.sock.sendall(encode_score(1, bytes(8), 1, 8, 0, bytes(4))[:-1])
    bad.sock.close()
    wait_until(lambda: "59 bytes of a cut frame" in worker.text(), "the cut frame is logged")
    assert values(good.score(1, [(1, 2)])) == [3]


def test_a_frame_that_comes_in_drops_is_one_frame(worker: WorkerProcess) -> None:
    client = worker.client()
    raw = encode_score(1, struct.pack("<2f", 1, 2), 1, 8, 0, bytes(4))
    for i in range(len(raw)):
        client.sock.sendall(raw[i : i + 1])
    assert values(client.receive()) == [3]


def test_a_client_that_does_not_read_holds_up_nobody(worker: WorkerProcess) -> None:
    greedy, other = worker.client(), worker.client()
    raw = encode_score(1, struct.pack("<32f", *[1.0] * 32), 16, 8, 0, bytes(64))
    sent = _fill(greedy.sock, raw * 100, limit=100_000_000)
    assert sent < 100_000_000  # its socket is full: it is not read for ever
    assert values(other.score(1, [(1, 2)])) == [3]
    greedy.sock.settimeout(60)
    answered = 0
    for _ in range(sent // len(raw)):
        answered += len(values(greedy.receive()))
    assert answered == 16 * (sent // len(raw))


def _fill(sock: socket.socket, data: bytes, limit: int) -> int:
    """Send until nothing is taken for a while; how many bytes were."""
    sock.settimeout(1.0)
    sent = 0
    try:
        while sent < limit:
            sent += sock.send(data[sent % len(data) :])
    except TimeoutError:
        return sent
    return sent


def test_sigterm_answers_what_is_under_way_then_ends(worker: WorkerProcess, tmp_path: Path) -> None:
    busy, idle = worker.client(), worker.client()
    busy.send(1, [(1000, 0.5)])
    wait_until(lambda: '"bucket": 1,' in _health(worker), "the batch is under way")
    busy.send(2, [(1, 2)])
    worker.process.terminate()
    assert isinstance(idle.receive(), Drain)
    answers = [busy.receive() for _ in range(3)]
    assert sum(isinstance(answer, Drain) for answer in answers) == 1
    replies = [answer for answer in answers if isinstance(answer, Reply)]
    assert [values(reply) for reply in replies] == [[1000.5], [3]]
    assert idle.closed()
    assert worker.process.wait(30) == EXIT_OK
    assert not list(tmp_path.glob("*.sock"))


def test_health_answers_while_a_batch_is_computed(worker: WorkerProcess, tmp_path: Path) -> None:
    client = worker.client()
    client.send(1, [(1000, 1.0)])
    wait_until(lambda: '"bucket": 1,' in _health(worker), "health shows the batch")
    status, _, body = _health(worker).partition("\r\n\r\n")
    assert "200 OK" in status
    shown = json.loads(body)
    assert shown["ready"] is True
    assert shown["busy_ms"] > 0
    client.receive()
    client.score(2, [(1, 2), (float("nan"), 1)])
    client.score(3, [(666, 0)])
    metrics = ask(tmp_path / "h.sock", "/metrics")
    for line in (
        'tidemill_worker_model_info{name="tricky",version="7"} 1.0',
        "tidemill_worker_rows_total 3.0",
        "tidemill_worker_batches_total 2.0",
        "tidemill_worker_bad_rows_total 1.0",
        'tidemill_worker_failed_frames_total{reason="model_error"} 1.0',
        'tidemill_worker_batch_rows_bucket{le="2.0"} 2.0',
        "tidemill_worker_service_seconds_count 2.0",
        "tidemill_worker_queue_seconds_count 2.0",
        "tidemill_worker_connections 1.0",
        "tidemill_worker_ready 1.0",
    ):
        assert line in metrics
    assert "404" in ask(tmp_path / "h.sock", "/other")


def test_only_its_own_user_can_open_the_socket(worker: WorkerProcess, tmp_path: Path) -> None:
    worker.client()
    for name in ("w.sock", "h.sock"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def _hello_as(uid: int, path: Path) -> int:
    """How many bytes another user is told; its Python may be out of that user's reach, so a fork."""
    pid = os.fork()
    if not pid:
        try:
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(path))
                os._exit(min(len(sock.recv(100)), 100))
        finally:
            os._exit(101)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start a process as another user")
def test_another_user_gets_no_hello(worker: WorkerProcess, tmp_path: Path) -> None:
    worker.client()
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    (tmp_path / "w.sock").chmod(0o666)  # even if the file's mode were wrong
    assert _hello_as(65534, tmp_path / "w.sock") == 0
    wait_until(lambda: "foreign_user" in worker.text(), "the reason is logged")


def test_a_second_worker_does_not_take_the_address(
    worker: WorkerProcess, config: WorkerConfig, tmp_path: Path
) -> None:
    client = worker.client()
    (tmp_path / "second").mkdir()
    second_config = WorkerConfig(config.model, config.address)
    with running(tmp_path / "second", second_config) as second:
        assert second.process.wait(60) == EXIT_ADDRESS
        assert "another process listens" in second.text()
    assert values(client.score(1, [(1, 2)])) == [3]
    assert values(worker.client().score(1, [(1, 2)])) == [3]


def test_the_socket_of_a_killed_worker_is_taken_over(config: WorkerConfig, tmp_path: Path) -> None:
    with running(tmp_path, config) as first:
        first.client()
    assert (tmp_path / "w.sock").exists()
    with running(tmp_path, config) as second:
        assert values(second.client().score(1, [(1, 2)])) == [3]


def test_a_model_that_fails_in_warm_up_never_listens(tmp_path: Path, config: WorkerConfig) -> None:
    (Path(config.model) / "tricky.py").write_text("def total(block):\n    return block[:, 0]\n")
    with running(tmp_path, config) as worker:
        assert worker.process.wait(60) == EXIT_LOAD
        assert "shape (16,) for 16 rows and 1 outputs" in worker.text()
    assert not (tmp_path / "w.sock").exists()


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    config = WorkerConfig(str(tmp_path / "none"), f"unix:{tmp_path / 'w.sock'}")
    with running(tmp_path, config) as worker:
        assert worker.process.wait(60) == EXIT_SETTINGS
        assert "no model in" in worker.text()


def test_a_late_client_is_told_to_leave(worker: WorkerProcess) -> None:
    busy, late = worker.client(), worker.client()
    busy.send(1, [(1000, 0.5)])
    wait_until(lambda: '"bucket": 1,' in _health(worker), "the batch is under way")
    worker.process.terminate()
    time.sleep(0.1)
    late.send(9, [(1, 2)])  # it crossed the DRAIN: answered all the same
    assert {type(late.receive()), type(late.receive())} == {Drain, Reply}


def test_a_client_that_goes_on_sending_does_not_hold_up_the_end(
    config: WorkerConfig, tmp_path: Path
) -> None:
    with running(tmp_path, replace(config, drain_s=1.0)) as worker:
        client = worker.client()
        worker.process.terminate()
        batch = 0
        while worker.process.poll() is None:
            batch += 1
            try:
                client.send(batch, [(1, 2)])
                client.receive()
            except (EOFError, ConnectionError):
                break
        assert worker.process.wait(30) == EXIT_OK
        assert batch > 1
