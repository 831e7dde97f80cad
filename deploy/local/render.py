"""Text of each service's configuration; pure functions of the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.local.plan import StackPlan

# Flink's own default, less the exports of jdk.compiler: a JRE lacks it and would say so at each start.
_JAVA_EXPORTS = ("java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5")
_JAVA_OPENS = (
    "java.lang",
    "java.net",
    "java.io",
    "java.nio",
    "java.lang.reflect",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.concurrent.locks",
)


def java_module_options() -> list[str]:
    """JVM options without which Flink fails on Java 17."""
    return [
        *(f"--add-exports={name}=ALL-UNNAMED" for name in _JAVA_EXPORTS),
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _JAVA_OPENS),
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    ]


def broker_properties(plan: StackPlan) -> str:
    """A single KRaft node for broker and controller."""
    ports = plan.ports
    return _properties(
        {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{ports.controller}",
            "listeners": f"PLAINTEXT://{plan.kafka},CONTROLLER://127.0.0.1:{ports.controller}",
            "advertised.listeners": f"PLAINTEXT://{plan.kafka}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": plan.kafka_dir,
            # one node: the defaults ask for three replicas
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            # 50 partitions each by default: seconds of a start for nothing
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            # a typo in a topic name must be an error and not a new topic
            "auto.create.topics.enable": "false",
            # Flink's transactions may stay open for as long as a job is down
            "transaction.max.timeout.ms": 900000,
            "log.cleaner.dedupe.buffer.size": 16777216,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }
    )


def redis_config(plan: StackPlan) -> str:
    """A server of this machine alone; answers outlive its kill, as they are on file at once."""
    lines = {
        "bind": "127.0.0.1",
        "port": plan.ports.redis,
        "dir": f'"{plan.redis_dir}"',
        "daemonize": "no",
        "save": '""',
        # every write is in the kernel before its reply, so a killed server loses no answer;
        # fsync only guards against a power cut and costs milliseconds
        "appendonly": "yes",
        "appendfsync": "no",
        "auto-aof-rewrite-min-size": "1gb",
        "maxmemory": f"{plan.sizes.redis_max}mb",
        # every key has a TTL: the answers that are due to go first, go first
        "maxmemory-policy": "volatile-ttl",
        "client-output-buffer-limit": "pubsub 64mb 16mb 60",
        "tcp-backlog": 128,
        # a title would be written over the environment, by which a leftover is recognised
        "set-proc-title": "no",
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())


def flink_config(plan: StackPlan, python: Path, python_path: Sequence[Path]) -> str:
    """config.yaml of JobManager and TaskManagers; every memory pool is given, none derived."""
    sizes, ports = plan.sizes, plan.ports
    values: dict[str, Any] = {
        "env.java.opts.all": " ".join(java_module_options()),
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": ports.flink_rpc,
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.memory.heap.size": f"{sizes.job_manager_heap}m",
        "jobmanager.memory.off-heap.size": "128m",
        "jobmanager.memory.jvm-metaspace.size": "256m",
        "jobmanager.memory.jvm-overhead.min": "192m",
        "jobmanager.memory.jvm-overhead.max": "192m",
        "rest.address": "127.0.0.1",
        "rest.port": ports.flink_rest,
        "rest.bind-address": "127.0.0.1",
        "rest.bind-port": ports.flink_rest,
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        # one slot each: two Python operators in one JVM share the interpreter's lock
        "taskmanager.numberOfTaskSlots": 1,
        "taskmanager.cpu.cores": 1.0,
        "taskmanager.memory.task.heap.size": f"{sizes.task_heap}m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.framework.heap.size": "128m",
        "taskmanager.memory.framework.off-heap.size": "128m",
        "taskmanager.memory.network.min": f"{sizes.task_network}m",
        "taskmanager.memory.network.max": f"{sizes.task_network}m",
        "taskmanager.memory.managed.size": f"{sizes.task_managed}m",
        "taskmanager.memory.jvm-metaspace.size": "256m",
        "taskmanager.memory.jvm-overhead.min": "192m",
        "taskmanager.memory.jvm-overhead.max": "192m",
        # a TaskManager that starts before its JobManager asks again at once, not after 10 s
        "cluster.registration.error-delay": "200 ms",
        "cluster.registration.refused-registration-delay": "1 s",
        # a killed TaskManager is missed after two lost beats; a paused one after 20 s
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "20 s",
        "python.execution-mode": "thread",
        "python.pythonpath": ":".join(map(str, python_path)),
        "python.executable": python,
        "python.client.executable": python,
        "execution.checkpointing.dir": f"file://{plan.checkpoints}",
        "execution.checkpointing.savepoint-dir": f"file://{plan.savepoints}",
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1000,
        "restart-strategy.fixed-delay.delay": "500 ms",
        "io.tmp.dirs": plan.flink_tmp,
        "web.submit.enable": False,
        "metrics.reporter.prom.factory.class": (
            "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
        ),
        "metrics.reporter.prom.port": ",".join(map(str, ports.flink_metrics)),
        "metrics.reporter.prom.filterLabelValueCharacters": False,
    }
    # JSON scalars are YAML scalars
    return "".join(f"{name}: {_scalar(value)}\n" for name, value in values.items())


def flink_log_config() -> str:
    """log4j of JobManager and TaskManagers: one rolling file each, without known noise."""
    return _log4j_file("${sys:log.file}", "%d{ISO8601} %-5p %c{1} - %m%n") + _properties(
        {
            # logged at each checkpoint for each sink, and harmless
            "appender.main.filter.collision.type": "RegexFilter",
            "appender.main.filter.collision.regex": ".*Name collision.*pendingCommittables.*",
            "appender.main.filter.collision.onMatch": "DENY",
            "appender.main.filter.collision.onMismatch": "ACCEPT",
            "logger.pekko.name": "org.apache.pekko",
            "logger.pekko.level": "WARN",
            "logger.kafka.name": "org.apache.kafka",
            "logger.kafka.level": "WARN",
            # dumps the whole configuration of each client, secrets masked but 100 lines long
            "logger.kafkaclient.name": "org.apache.flink.kafka.shaded.org.apache.kafka",
            "logger.kafkaclient.level": "WARN",
            # a line each time that a partition is idle: on a quiet topic almost one a record
            "logger.idle.name": "org.apache.flink.streaming.api.operators.AbstractStreamOperator",
            "logger.idle.level": "WARN",
        }
    )


def broker_log_config() -> str:
    """log4j of the broker."""
    return _log4j_file("${sys:log.file}", "%d{ISO8601} %-5p %c{1} - %m%n")


def settings_toml(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A settings file of sections, keys and one level of tables."""
    out: list[str] = []
    for section, keys in values.items():
        plain = {k: v for k, v in keys.items() if not isinstance(v, Mapping)}
        out.append(f"[{section}]")
        out += [f"{_key(name)} = {_scalar(value)}" for name, value in plain.items()]
        for name, table in keys.items():
            if isinstance(table, Mapping):
                out.append(f"\n[{section}.{_key(name)}]")
                out += [f"{_key(key)} = {_inline(value)}" for key, value in table.items()]
        out.append("")
    return "\n".join(out)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return _scalar(value)


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)


def _scalar(value: Any) -> str:
    plain = value if isinstance(value, (bool, int, float)) else str(value)
    return json.dumps(plain, ensure_ascii=False)


def _properties(values: Mapping[str, Any]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _log4j_file(file: str, pattern: str) -> str:
    return _properties(
        {
            "rootLogger.level": "INFO",
            "rootLogger.appenderRef.file.ref": "MainAppender",
            "appender.main.name": "MainAppender",
            "appender.main.type": "RollingFile",
            "appender.main.append": "true",
            "appender.main.fileName": file,
            "appender.main.filePattern": f"{file}.%i",
            "appender.main.layout.type": "PatternLayout",
            "appender.main.layout.pattern": pattern,
            "appender.main.policies.type": "Policies",
            "appender.main.policies.size.type": "SizeBasedTriggeringPolicy",
            "appender.main.policies.size.size": "50MB",
            "appender.main.strategy.type": "DefaultRolloverStrategy",
            "appender.main.strategy.max": "3",
        }
    )
