"""The hop to the worker and back, against a bare socket: 64 rows of 32 float32.

Both are measured in turns in one run, every process pinned to one core: so the figure is the work
that each of them does, and not how the scheduler woke a core that slept. The same again with the
other end on another core (`hop.apart.*`), which is what a stack on a busy machine sees more often.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from array import array
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.report import Report
from models.link import connect
from models.spec import FeatureSpec, ModelSpec, OutputSpec, save_spec
from models.wire import READ_BYTES, Decoder, Reply, score_header
from models.worker_config import WorkerConfig

ROWS, FEATURES = 64, 32
ROW_BYTES = 4 * FEATURES
TURNS, HOPS = 40, 100
WARM_HOPS = 500
START_S = 30.0
BUDGET_NS = 100_000_000

IDENTITY = '''"""As cheap as a model can be: its first feature."""


def first(block):
    return block[:, :1]
'''
ECHO_CODE = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
sock, _ = listener.accept()
need, give = int(sys.argv[2]), int(sys.argv[3])
buffer = memoryview(bytearray(need))
while True:
    at = 0
    while at < need:
        size = sock.recv_into(buffer[at:])
        if not size:
            sys.exit()
        at += size
    sock.sendall(buffer[:give])
"""


def run(report: Report) -> None:
    """Goal: hop.ratio <= 3."""
    cores = sorted(os.sched_getaffinity(0))
    try:
        together = _measure(cores[0], cores[0])
        report.note(f"all processes on core {cores[0]}; {TURNS} turns of {HOPS} hops each")
        _tell(report, "", together)
        if len(cores) > 1:
            report.note(f"client on core {cores[0]}, the other end on core {cores[1]}")
            _tell(report, "apart.", _measure(cores[0], cores[1]))
    finally:
        os.sched_setaffinity(0, cores)


def _tell(report: Report, prefix: str, spans_us: tuple[list[float], list[float]]) -> None:
    worker_us, echo_us = (sorted(spans) for spans in spans_us)
    for name, spans in (("worker", worker_us), ("echo", echo_us)):
        report.value(f"{prefix}{name}.p50", median(spans), "us")
        report.value(f"{prefix}{name}.p99", spans[len(spans) * 99 // 100], "us")
    report.value(f"{prefix}ratio", median(worker_us) / median(echo_us), "x")


def _measure(own_core: int, other_core: int) -> tuple[list[float], list[float]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemill-hop-")))
        os.sched_setaffinity(0, {other_core})  # inherited by what is started now
        worker = _start_worker(stack, folder)
        echo = _start_echo(stack, folder)
        os.sched_setaffinity(0, {own_core})
        hop, bare = _worker_hop(worker), _echo_hop(echo)
        for _ in range(WARM_HOPS):
            hop()
            bare()
        worker_us: list[float] = []
        echo_us: list[float] = []
        for _ in range(TURNS):
            worker_us += [_timed(hop) for _ in range(HOPS)]
            echo_us += [_timed(bare) for _ in range(HOPS)]
    return worker_us, echo_us


def _timed(call: Callable[[], None]) -> float:
    start_ns = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start_ns) / 1000


def _worker_hop(sock: socket.socket) -> Callable[[], None]:
    block, row_ids = array("f", [1.5] * ROWS * FEATURES).tobytes(), bytes(4 * ROWS)
    decoder = Decoder()
    while not decoder.feed(sock.recv(READ_BYTES)):  # HELLO
        pass

    def hop() -> None:
        sock.sendmsg((score_header(1, ROWS, ROW_BYTES, BUDGET_NS), block, row_ids))
        while not (messages := decoder.feed(sock.recv(READ_BYTES))):
            pass
        if not isinstance(messages[0], Reply):
            raise RuntimeError(f"the worker did not score: {messages[0]}")

    return hop


def _echo_hop(sock: socket.socket) -> Callable[[], None]:
    message, (_, give) = os.urandom(_sizes()[0]), _sizes()
    buffer = bytearray(give)

    def bare() -> None:
        sock.sendall(message)
        left = give
        while left:
            left -= sock.recv_into(buffer, left)

    return bare


def _sizes() -> tuple[int, int]:
    """Bytes there and back: those of a SCORE and of its REPLY."""
    head = len(score_header(1, ROWS, ROW_BYTES, 0))
    return head + ROWS * (ROW_BYTES + 4), head + ROWS * (1 + 4 + 4)


def _start_worker(stack: ExitStack, folder: Path) -> socket.socket:
    model = folder / "model"
    features = tuple(FeatureSpec(f"f{i}", default=0.0) for i in range(FEATURES))
    spec = ModelSpec(
        "identity", "1", features, (OutputSpec("y"),), kind="callable", function="identity:first"
    )
    save_spec(spec, model)
    (model / "identity.py").write_text(IDENTITY, "utf-8")
    address = f"unix:{folder / 'worker.sock'}"
    config = WorkerConfig(str(model), address, parent=os.getpid(), log_level="WARNING")
    return _start(stack, config.command(), address)


def _start_echo(stack: ExitStack, folder: Path) -> socket.socket:
    path = folder / "echo.sock"
    command = [WorkerConfig("", "").command()[0], "-c", ECHO_CODE, str(path)]
    return _start(stack, [*command, *map(str, _sizes())], f"unix:{path}")


def _start(stack: ExitStack, command: list[str], address: str) -> socket.socket:
    process = subprocess.Popen(command)
    stack.callback(process.wait)
    stack.callback(process.kill)
    until_s = time.monotonic() + START_S
    while True:
        try:
            return stack.enter_context(connect(address, START_S))
        except OSError:
            if process.poll() is not None or time.monotonic() > until_s:
                raise
            time.sleep(0.02)
