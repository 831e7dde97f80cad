"""Real worker processes for tests: a model folder, a process, a client that speaks the wire."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from models.link import connect
from models.messages import Hello, Message, Reply
from models.spec import FeatureSpec, ModelSpec, OutputSpec, save_spec
from models.wire import READ_BYTES, Decoder, encode_score
from models.worker_config import WorkerConfig

START_S = 120.0  # torch takes its time on a busy machine
ANSWER_S = 60.0
REPOSITORY = Path(__file__).resolve().parent.parent

# Row = (a, b): the answer is a + b; a = 666 raises, a = 1000 sleeps for b seconds.
TRICKY = """
import time

def total(block):
    if (block[:, 0] == 666).any():
        raise RuntimeError("poisoned row")
    for row in block[block[:, 0] == 1000]:
        time.sleep(float(row[1]))
    return block.sum(axis=1, keepdims=True)
"""


def tricky_model(folder: Path) -> Path:
    """A model folder of kind callable: the function above."""
    features = (FeatureSpec("a", default=0.0), FeatureSpec("b", default=0.0))
    spec = ModelSpec(
        "tricky",
        "7",
        features,
        (OutputSpec("total"),),
        buckets=(1, 8, 16),
        max_rows=16,
        kind="callable",
        function="tricky:total",
    )
    save_spec(spec, folder)
    (folder / "tricky.py").write_text(TRICKY, "utf-8")
    return folder


@dataclass
class WorkerProcess:
    """A started worker (or its supervisor) and what it logs."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path
    client_options: dict[str, str]
    clients: list[Client] = field(default_factory=list)

    def client(self, timeout_s: float = START_S) -> Client:
        """Connect, waiting until it listens. Raises AssertionError if it ends before that."""
        until_s = time.monotonic() + timeout_s
        while True:
            try:
                sock = connect(self.address, ANSWER_S, **self.client_options)  # type: ignore[arg-type]
                break
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError):
                assert self.process.poll() is None, self.text()
                assert time.monotonic() < until_s, self.text()
                time.sleep(0.02)
        client = Client(sock)
        self.clients.append(client)
        client.greet()
        return client

    def children(self) -> list[int]:
        """Process ids of its children."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def text(self) -> str:
        """All that it logged."""
        return self.log.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it and wait; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(ANSWER_S)


class Client:
    """One connection to a worker."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.decoder = Decoder()
        self._ready: list[Message] = []
        self.hello: Hello

    def greet(self) -> None:
        """Read the HELLO. Raises EOFError if the worker lets nobody in."""
        hello = self.receive()
        assert isinstance(hello, Hello)
        self.hello = hello

    def send(self, batch_id: int, rows: Sequence[Sequence[float]]) -> None:
        """Send one SCORE; row ids count from 0."""
        block = np.array(rows, np.float32)
        ids = np.arange(len(rows), dtype=np.uint32)
        raw = encode_score(
            batch_id, block.tobytes(), len(rows), block.shape[1] * 4, 10**8, ids.tobytes()
        )
        self.sock.sendall(raw)

    def receive(self) -> Message:
        """The next message. Raises EOFError when the worker has closed."""
        while not self._ready:
            data = self.sock.recv(READ_BYTES)
            if not data:
                raise EOFError
            self._ready += self.decoder.feed(data)
        return self._ready.pop(0)

    def score(self, batch_id: int, rows: Sequence[Sequence[float]]) -> Message:
        """Send and wait for the next message."""
        self.send(batch_id, rows)
        return self.receive()

    def closed(self) -> bool:
        """True once the worker has closed the connection; waits for it."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True


def values(message: Message) -> list[float]:
    """Outputs of a REPLY in which every row is fine."""
    assert isinstance(message, Reply), message
    assert not any(message.status), bytes(message.status)
    outputs: list[float] = np.frombuffer(message.outputs, np.float32).tolist()
    return outputs


@contextmanager
def running(
    folder: Path,
    config: WorkerConfig,
    *,
    supervised: bool = False,
    client_options: dict[str, str] | None = None,
) -> Iterator[WorkerProcess]:
    """A worker process that is gone afterwards, with its children; its log lies in `folder`."""
    log = folder / "worker.log"
    command = [sys.executable, "-m", "tests.supervise"] if supervised else []
    with log.open("wb") as output:
        process = subprocess.Popen(
            command + config.command()[3 if supervised else 0 :],
            stderr=output,
            stdout=output,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
    worker = WorkerProcess(process, config.address, log, client_options or {})
    try:
        yield worker
    finally:
        for client in worker.clients:
            client.sock.close()
        if process.poll() is None:
            process.kill()  # its child dies with it
        process.wait(ANSWER_S)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = ANSWER_S) -> None:
    """Poll; raises AssertionError naming `what` when it takes too long."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.02)
