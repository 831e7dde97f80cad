"""Keep one worker process alive: start it, probe it, kill it when it hangs, start it again.

Decides nothing itself: `models.restart` does. Light: no numpy, no torch.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import random
import select
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.address import UnixAddress, parse_address
from models.restart import GiveUp, Kill, Phase, Probe, RestartLogic, RestartPolicy
from models.worker_config import EXIT_OK, WorkerConfig

log = logging.getLogger(__name__)

PROBE_EVERY_S = 0.5
PROBE_TIMEOUT_S = 1.0
DRAIN_GRACE_S = 5.0  # over the child's own drain time


class Supervisor:
    """Runs `config` in a child process until told to stop. Main thread only: it takes the signals."""

    def __init__(self, config: WorkerConfig, policy: RestartPolicy, health: UnixAddress) -> None:
        self._config = replace(config, health=str(health), parent=os.getpid())
        self._logic = RestartLogic(policy)
        self._health = health
        self._drain_s = config.drain_s + DRAIN_GRACE_S
        self._stopping = False
        self._restarts = 0
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_write.setblocking(False)

    def run(self) -> int:
        """Blocks. Returns the exit code: 0 after a clean stop, else the child's hopeless one."""
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            code = self._run_child()
            if self._stopping:
                return EXIT_OK
            verdict = self._logic.exited(code, _now_ms(), random.random())  # noqa: S311 - jitter
            if isinstance(verdict, GiveUp):
                if verdict.code != EXIT_OK:
                    log.error("worker ended with %d: starting it again can't help", verdict.code)
                return verdict.code
            log.warning("worker ended with %d; again in %.0f ms", code, verdict.pause_ms)
            if self._pause(verdict.pause_ms / 1000):
                return EXIT_OK
            self._restarts += 1

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _pause(self, seconds: float) -> bool:
        """Wait; True at once if a stop was asked for."""
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            select.select([self._wake_read], [], [], left)
        return self._stopping

    def _run_child(self) -> int:
        # In a process group of its own: Ctrl-C reaches only this process, which then drains it.
        child = subprocess.Popen(
            replace(self._config, restarts=self._restarts).command(), process_group=0
        )
        self._logic.started(_now_ms())
        handle = os.pidfd_open(child.pid)
        try:
            self._watch(child, handle)
            if child.poll() is None:
                self._drain(child, handle)
        finally:
            os.close(handle)
            if child.poll() is None:
                child.kill()
            code = child.wait()
        return code

    def _watch(self, child: subprocess.Popen[bytes], handle: int) -> None:
        """Until the child has ended or a stop was asked for."""
        while not self._stopping:
            ready, _, _ = select.select([handle, self._wake_read.fileno()], [], [], PROBE_EVERY_S)
            if handle in ready or self._stopping:
                return
            was = self._logic.state.phase
            verdict = self._logic.probed(probe(self._health.path), _now_ms())
            if self._logic.state.phase is Phase.READY and was is not Phase.READY:
                log.info("worker %d is ready and watched", child.pid)
            if isinstance(verdict, Kill):
                log.error("worker %d hangs and is killed: %s", child.pid, verdict.why)
                child.kill()
                child.wait()
                return

    def _drain(self, child: subprocess.Popen[bytes], handle: int) -> None:
        child.terminate()
        ready, _, _ = select.select([handle], [], [], self._drain_s)
        if not ready:
            log.error("worker %d did not drain in %.0f s and is killed", child.pid, self._drain_s)


def probe(path: Path, timeout_s: float = PROBE_TIMEOUT_S) -> Probe | None:
    """Ask a worker's health socket; None if there is no sensible answer in time."""
    try:
        return Probe.from_health(_health(path, timeout_s))
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None


def _health(path: Path, timeout_s: float) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout_s)
        sock.connect(str(path))
        sock.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        body: dict[str, Any] = json.loads(answer.read())
        return body


def health_address(config: WorkerConfig, run_folder: Path) -> UnixAddress:
    """Where the child's health is asked: as configured, else beside its socket, else in `run_folder`."""
    if config.health:
        stated = parse_address(config.health)
        if isinstance(stated, UnixAddress):
            return stated
    address = parse_address(config.address)
    if isinstance(address, UnixAddress):
        return UnixAddress(address.path.with_name(address.path.name + ".health"))
    return UnixAddress(run_folder / f"worker-{os.getpid()}.health")


def _now_ms() -> float:
    return time.monotonic() * 1000
