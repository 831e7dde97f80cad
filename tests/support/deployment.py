"""One scoring job with its own topics, group, Redis prefix, model and worker on a stack.

Several may run on one stack, one slot each.
"""

from __future__ import annotations

import json
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer
from redis import Redis

from deploy.flink_rest import FlinkRest
from deploy.local import ready
from deploy.local.render import settings_toml
from deploy.local.stack import RunningStack
from deploy.submit import submit
from deploy.topics import create_topics
from drift.control import ControlMessage
from tests.support.kafka_view import TopicView
from tests.support.model_folder import write_model
from tests.support.orders import Orders
from tidemill.contracts import result_key
from tidemill.settings import load_settings

Overlay = Mapping[str, Mapping[str, Any]]

# The machine of the tests is slow and shared: only tests of deadlines set shorter ones.
_CALM: Overlay = {
    "job": {
        "sla_ms": 20_000,
        "watermark_interval_ms": 200,
        "idle_ms": 1000,
        "checkpoint_interval_ms": 1000,
        "start": "earliest",
    },
    "batch": {"stall_floor_ms": 5000.0},
}


class Deployment:
    """Starts the worker and, with ``submit``, the job; ``supervised`` is the real `tidemill worker`."""

    def __init__(
        self,
        stack: RunningStack,
        name: str,
        folder: Path,
        overlay: Overlay | None = None,
        *,
        rules: bool = True,
        supervised: bool = False,
    ) -> None:
        self.stack = stack
        self.name = name
        self.worker = f"worker-{name}"
        self.model = write_model(folder / f"model-{name}", rules=rules)
        self.socket = stack.plan.worker_socket.with_name(f"{name}.sock")
        self.settings_path = folder / f"{name}.toml"
        self.configure(overlay or {})
        create_topics(self.settings)
        self.flink = FlinkRest(stack.flink_address)
        self.job_id = ""
        # its answers are typed for asyncio as well, which would ask for a cast at each use
        self.redis: Any = Redis(port=stack.redis_port, socket_timeout=5)
        self._start_worker(supervised=supervised)

    def configure(self, overlay: Overlay) -> None:
        """Write the settings; they count from the next submission on."""
        own: Overlay = {
            "kafka": {"group": f"{self.name}-scoring"},
            "topics": {
                role: f"{self.name}.{role}"
                for role in ("orders", "outcomes", "results", "features", "control")
            }
            | {"alerts": f"{self.name}.alerts", "reports": f"{self.name}.reports"},
            "redis": {"prefix": f"tidemill:{self.name}"},
            "model": {"path": str(self.model)},
            "worker": {"address": f"unix:{self.socket}"},
            "metrics": {"worker_port": 0, "relay_port": 0},
            "job": {"name": self.name},
        }
        merged: dict[str, dict[str, Any]] = tomllib.loads(self.stack.settings_path.read_text())
        for source in (_CALM, own, overlay):
            for section, keys in source.items():
                merged.setdefault(section, {}).update(keys)
        self.settings_path.write_text(settings_toml(merged))
        self.settings = load_settings(self.settings_path, environ={})

    def submit(self, savepoint: str | None = None) -> str:
        """Start the job (in place of the one before) and wait until all its tasks run."""
        self.cancel()
        self.job_id = submit(
            self.stack.flink_address, self.settings_path, self.stack.tools, savepoint=savepoint
        )
        self.flink.wait_running(self.job_id)
        return self.job_id

    def warm_up(self, orders: int = 200) -> None:
        """The first records after a start are many times slower; get them over with."""
        tasks = [f"warm-{time.time_ns()}-{number}" for number in range(orders)]
        for task in tasks:
            self.orders.send(task)
        self.orders.flush()
        self.answers(tasks, timeout_s=60)

    def answers(self, tasks: Iterable[str], timeout_s: float = 30.0) -> dict[str, dict[str, Any]]:
        """The answers of ``tasks`` in Redis, once each has one."""
        wanted = list(tasks)
        end = time.monotonic() + timeout_s
        while True:
            found = self.answers_now(wanted)
            if len(found) == len(set(wanted)):
                return found
            missing = [task for task in wanted if task not in found]
            assert time.monotonic() < end, (
                f"{len(missing)} of {len(wanted)} tasks have no answer after {timeout_s} s, "
                f"the first is {missing[0]}; job {self.flink.state(self.job_id)}: "
                f"{self.flink.root_cause(self.job_id)}"
            )
            time.sleep(0.05)

    def answer(self, task: str, timeout_s: float = 30.0) -> dict[str, Any]:
        """The answer of one task, once it is there."""
        return self.answers([task], timeout_s)[task]

    def answers_now(self, tasks: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The answers of those ``tasks`` that have one."""
        wanted = list(tasks)
        values = self.redis.mget([self.key(task) for task in wanted])
        return {
            task: json.loads(value)
            for task, value in zip(wanted, values, strict=True)
            if value is not None
        }

    def key(self, task: str) -> str:
        """Key of the answer of ``task``."""
        return result_key(self.settings.prefix, task)

    def failed_checkpoints(self) -> list[str]:
        """Why checkpoints failed, those left out that met a start or a restart of the job."""
        history = self.flink.checkpoints(self.job_id)["history"]
        reasons = [str(c["failure_message"]) for c in history if c["status"] == "FAILED"]
        expected = ("not running", "is suspending")
        return [reason for reason in reasons if not any(text in reason for text in expected)]

    def command(self, version: int, command: str, feature: str) -> None:
        """Send a control message."""
        producer = Producer(self.settings.kafka.producer_config() | {"log_level": "0"})
        message = ControlMessage(version, command, feature, why="test", who="tests")
        producer.produce(self.settings.topics.control, message.encode(), feature.encode())
        assert producer.flush(10) == 0

    def view(self, topic: str, *, dirty: bool = False) -> TopicView:
        """A topic from outside."""
        return TopicView(self.settings, topic, dirty=dirty)

    @cached_property
    def orders(self) -> Orders:
        """Where orders are sent."""
        return Orders(self.settings)

    def wait_worker(self) -> None:
        """Wait until the worker takes connections."""
        ready.wait_for(
            self.worker,
            lambda: ready.unix_answers(self.socket),
            lambda: self.stack.processes[self.worker].alive(),
            self.stack.plan.logs / f"{self.worker}.out",
            60.0,
        )

    def cancel(self) -> None:
        """End the job, if it has not ended."""
        if self.job_id and self.flink.state(self.job_id) not in ("FAILED", "FINISHED", "CANCELED"):
            self.flink.cancel(self.job_id)

    def close(self) -> None:
        """End the job and the worker."""
        self.cancel()
        self.stack.kill(self.worker)
        self.redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start_worker(self, *, supervised: bool) -> None:
        python = [sys.executable, "-m"]
        if supervised:
            command = [*python, "cli.main", "worker", "--config", str(self.settings_path)]
        else:
            where = ["--model", str(self.model), "--address", f"unix:{self.socket}"]
            command = [*python, "models.worker", *where]
        self.stack.add_program(self.worker, command)
        self.wait_worker()
