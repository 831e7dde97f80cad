"""A real stack for one bench: Kafka, Redis, Flink, a worker, the scoring job; ended with the bench."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.cimpl import NewTopic
from redis import Redis

from bench.kit.errors import BenchError
from bench.kit.scale import own_settings
from bench.report import Report
from deploy.flink_rest import FlinkRest
from deploy.kafka_admin import admin_client
from deploy.local.render import settings_toml
from deploy.local.stack import RunningStack, up
from deploy.submit import submit
from deploy.tools import Tools
from deploy.topics import create_topics
from tidemill.settings import Settings, load_settings

Overlay = Mapping[str, Mapping[str, Any]]

TASK_MANAGER = "taskmanager-1"
_STILL_S, _ALIVE_S = 8.0, 0.5
_OURS = (sys.executable, "-m", "cli.main")


class BenchStack:
    """A stack that runs the scoring job."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.settings: Settings = load_settings(stack.settings_path, environ={})
        self.flink = FlinkRest(stack.flink_address)
        self.redis: Redis = Redis(port=stack.redis_port)
        self.job_id = ""

    @property
    def task_manager_pid(self) -> int:
        """Process of the only TaskManager."""
        return self.stack.processes[TASK_MANAGER].pid

    def submit(self, savepoint: str | None = None) -> None:
        """Start the job and wait until all its tasks run."""
        create_topics(self.settings)
        self.job_id = submit(
            self.stack.flink_address,
            self.stack.settings_path,
            self.stack.tools,
            savepoint=savepoint,
        )
        self.flink.wait_running(self.job_id, timeout_s=240)

    def switch(self, overlay: Overlay) -> None:
        """Stop the job with a savepoint and resume it with other settings."""
        savepoint = self.flink.stop(self.job_id)
        merged = tomllib.loads(self.stack.settings_path.read_text("utf-8"))
        for section, keys in overlay.items():
            merged.setdefault(section, {}).update(keys)
        self.stack.settings_path.write_text(settings_toml(merged), "utf-8")
        self.settings = load_settings(self.stack.settings_path, environ={})
        self.submit(savepoint)

    def check(self) -> None:
        """Raise BenchError if the job failed on the way: then nothing that was measured counts."""
        state = self.flink.state(self.job_id)
        cause = self.flink.root_cause(self.job_id)
        if state != "RUNNING" or cause:
            raise BenchError(f"the job is {state} and failed on the way: {cause}")

    def make_topic(self, name: str) -> None:
        """A topic of the bench's own, with as many partitions as the others."""
        admin = admin_client(self.settings.kafka.client_config())
        made = admin.create_topics([NewTopic(name, self.settings.topics.partitions, 1)])
        made[name].result(timeout=10)

    def start_relay(self) -> None:
        """The relay beside the job, as `tidemill up` has it."""
        self.stack.add_program("relay", (*_OURS, "relay"))

    def answers(self) -> int:
        """How many answers Redis holds."""
        size: int = self.redis.dbsize()  # type: ignore[assignment]  # of both kinds of client
        return size

    def forget_answers(self) -> None:
        """Empty Redis, so that it never evicts while something is measured."""
        self.redis.flushall(asynchronous=True)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The job stands still, warm, but for half a second in each 8 s, in which it tells that it lives.

        Otherwise Flink gives a TaskManager up (heartbeat.timeout).
        """
        over = threading.Event()

        def hold() -> None:
            while not over.is_set():
                self.stack.kill(TASK_MANAGER, signal.SIGSTOP)
                over.wait(_STILL_S)
                self.stack.kill(TASK_MANAGER, signal.SIGCONT)
                over.wait(_ALIVE_S)

        self.stack.kill(TASK_MANAGER, signal.SIGSTOP)
        thread = threading.Thread(target=hold, name="hold")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def bench_stack(
    report: Report, model: Path, overlay: Overlay | None = None
) -> Iterator[BenchStack]:
    """Start everything, submit the job; on an error the stack's folder stays, for its logs."""
    root = Path(tempfile.mkdtemp(prefix="tidemill-bench-"))
    tools = Tools(say=report.note)
    settings: dict[str, Mapping[str, Any]] = {**(overlay or {}), "model": {"path": str(model)}}
    base = own_settings()
    if base is not None:
        report.note(f"settings of {base} below the bench's own")
    worker = (*_OURS, "worker")
    started_s = time.monotonic()
    try:
        with up(root, worker=worker, settings=settings, base=base, tools=tools) as stack:
            running = BenchStack(stack)
            running.submit()
            report.note(f"stack and job up in {time.monotonic() - started_s:.0f} s")
            yield running
            running.check()
    except BaseException:
        report.note(f"failed; the logs are in {root / 'logs'}")
        raise
    shutil.rmtree(root)
