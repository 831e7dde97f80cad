"""Command line, environment and files of each service; nothing is started here."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from deploy.local import render
from deploy.local.plan import StackPlan
from deploy.local.process import STACK_MARK
from deploy.tools import Tools, checkout_dir

# Short-lived JVMs never earn back the time of the optimising compiler.
# On two cores the optimising compiler takes one of them for the first minute, while records wait; what
# it gains later is small, since a TaskManager's time goes into Python.
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


@dataclass(frozen=True)
class Service:
    """How to start one process."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]


class Services:
    """Builds the services of one plan with one set of tools."""

    def __init__(self, plan: StackPlan, tools: Tools) -> None:
        self._plan = plan
        self._tools = tools

    def write_files(self) -> None:
        """Create the folders and configuration of all services; raises OSError."""
        plan = self._plan
        for folder in plan.folders():
            folder.mkdir(parents=True, exist_ok=True)
        plan.kafka_config.write_text(render.broker_properties(plan))
        (plan.kafka_config.parent / "broker-log4j2.properties").write_text(
            render.broker_log_config()
        )
        plan.redis_config.write_text(render.redis_config(plan))
        config = render.flink_config(plan, Path(sys.executable), python_path())
        (plan.flink_conf / "config.yaml").write_text(config)
        (plan.flink_conf / "log4j.properties").write_text(render.flink_log_config())

    def redis(self) -> Service:
        """The Redis server."""
        argv = (str(self._tools.redis_server), str(self._plan.redis_config))
        return Service("redis", argv, self._environment())

    def kafka_format(self) -> tuple[str, ...] | None:
        """The command that prepares the broker's folder; None if that was done before."""
        plan = self._plan
        if (plan.kafka_dir / "meta.properties").is_file():
            return None
        return (
            str(self._tools.java),
            *_SHORT_LIVED,
            "-cp",
            self._kafka_classpath(),
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={_cluster_id()}",  # it may begin with a dash
            "--config",
            str(plan.kafka_config),
        )

    def kafka(self) -> Service:
        """The broker, which is its own controller."""
        plan = self._plan
        heap = f"{plan.sizes.broker_heap}m"
        argv = (
            str(self._tools.java),
            f"-Xmx{heap}",
            "-Xms128m",
            "-XX:+UseG1GC",
            "-XX:MaxGCPauseMillis=20",
            "-Djava.awt.headless=true",
            f"-Dlog.file={plan.logs / 'kafka.log'}",
            f"-Dlog4j2.configurationFile={plan.kafka_config.parent / 'broker-log4j2.properties'}",
            "-cp",
            self._kafka_classpath(),
            "kafka.Kafka",
            str(plan.kafka_config),
        )
        return Service("kafka", argv, self._environment())

    def job_manager(self) -> Service:
        """Flink's JobManager."""
        heap = f"{self._plan.sizes.job_manager_heap}m"
        return self._flink(
            "jobmanager",
            [f"-Xmx{heap}", f"-Xms{heap}"],
            "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
        )

    def task_manager(self, number: int) -> Service:
        """TaskManager ``number``, counted from 1; one slot."""
        sizes = self._plan.sizes
        heap = f"{sizes.task_heap + 128}m"  # and the framework's
        direct = f"{sizes.task_network + 128}m"
        return self._flink(
            f"taskmanager-{number}",
            [
                f"-Xmx{heap}",
                f"-Xms{heap}",
                f"-XX:MaxDirectMemorySize={direct}",
                "-XX:+UseG1GC",
                _QUICK_COMPILER,
            ],
            "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
            f"-Dtaskmanager.resource-id={self._plan.root.name}-{number}-{uuid4().hex[:8]}",
        )

    def program(self, name: str, argv: tuple[str, ...]) -> Service:
        """One of our own programs (worker, relay, gateway) on this stack's settings."""
        env = self._environment() | {"TIDEMILL_CONFIG": str(self._plan.settings_path)}
        return Service(name, argv, env)

    def _flink(self, name: str, jvm: list[str], main: str, *arguments: str) -> Service:
        plan = self._plan
        argv = (
            str(self._tools.java),
            *jvm,
            "-XX:MaxMetaspaceSize=256m",
            *render.java_module_options(),
            f"-Dlog.file={plan.logs / f'{name}.log'}",
            f"-Dlog4j.configurationFile={plan.flink_conf / 'log4j.properties'}",
            "-cp",
            ":".join(map(str, self._tools.flink_jars)),
            main,
            "--configDir",
            str(plan.flink_conf),
            *arguments,
        )
        return Service(name, argv, self._environment() | flink_environment(plan, self._tools))

    def _kafka_classpath(self) -> str:
        # Flink's log4j goes first: the broker's jars have no slf4j binding of their own
        log4j = sorted((self._tools.flink_home / "lib").glob("log4j-*.jar"))
        return ":".join(map(str, [*log4j, *self._tools.kafka_jars]))

    def _environment(self) -> dict[str, str]:
        return base_environment() | {STACK_MARK: str(self._plan.root)}


def base_environment(*, keep_settings: bool = False) -> dict[str, str]:
    """This process's environment less what would change how a service of ours starts.

    ``keep_settings`` keeps the settings that are given as variables, secrets among them.
    """
    unwanted: tuple[str, ...] = ("FLINK_", "JAVA_TOOL_OPTIONS", "KAFKA_", "LOG4J_", "PYFLINK_")
    unwanted += (STACK_MARK,) if keep_settings else ("TIDEMILL_",)
    env = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
    # The interpreter inside a JVM looks for its standard library beside the first python3 on PATH:
    # another Python's there ends every job with "No module named '_struct'".
    path = f"{Path(sys.executable).parent}:{env.get('PATH', os.defpath)}"
    # a TaskManager's operators import our packages, and thread mode takes their place from here
    return env | {"PATH": path, "PYTHONPATH": ":".join(map(str, python_path()))}


def flink_environment(plan: StackPlan, tools: Tools) -> dict[str, str]:
    """What Flink's processes and its `flink` command need to know of this stack."""
    return {
        "JAVA_HOME": str(tools.java_home),
        "FLINK_HOME": str(tools.flink_home),
        "FLINK_CONF_DIR": str(plan.flink_conf),
        "FLINK_LOG_DIR": str(plan.logs),
        "FLINK_PLUGINS_DIR": str(tools.flink_home / "plugins"),
    }


def python_path() -> list[Path]:
    """Where a TaskManager finds our packages and the installed ones."""
    site = Path(sysconfig.get_paths()["purelib"])
    ours = checkout_dir()
    return [site] if ours == site else [ours, site]


def _cluster_id() -> str:
    import base64

    return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
