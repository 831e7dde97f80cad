"""The services' configuration, as text."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

from deploy.local import render
from deploy.local.plan import Ports, Sizes, StackPlan
from deploy.local.stack import stack_settings
from tidemill.settings import load_settings

PORTS = Ports.of(range(20000, 20000 + Ports.needed()))


def plan(root: str = "/data/stack") -> StackPlan:
    return StackPlan(Path(root), PORTS)


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_broker_listens_where_the_settings_point() -> None:
    values = properties(render.broker_properties(plan()))
    assert values["advertised.listeners"] == f"PLAINTEXT://{plan().kafka}"
    assert values["controller.quorum.voters"].endswith(f":{PORTS.controller}")
    assert values["auto.create.topics.enable"] == "false"


def test_flink_runs_python_in_threads_on_the_given_path() -> None:
    text = render.flink_config(plan(), Path("/venv/bin/python"), [Path("/app"), Path("/site")])
    values = yaml.safe_load(text)
    assert values["python.execution-mode"] == "thread"
    assert values["python.pythonpath"] == "/app:/site"
    assert values["taskmanager.numberOfTaskSlots"] == 1
    assert values["execution.checkpointing.unaligned.enabled"] is True
    assert values["execution.checkpointing.dir"] == "file:///data/stack/flink/checkpoints"


def test_a_jre_without_a_compiler_gets_no_option_that_it_does_not_know() -> None:
    options = " ".join(render.java_module_options())
    assert "jdk.compiler" not in options
    assert "--add-opens=java.base/java.lang=ALL-UNNAMED" in options


def test_the_noise_of_every_checkpoint_is_filtered() -> None:
    values = properties(render.flink_log_config())
    assert "pendingCommittables" in values["appender.main.filter.collision.regex"]
    assert values["appender.main.filter.collision.onMatch"] == "DENY"


def test_redis_loses_no_answer_when_killed_and_evicts_what_expires_next() -> None:
    lines = dict(line.split(" ", 1) for line in render.redis_config(plan()).splitlines())
    assert lines["appendonly"] == "yes"
    assert lines["maxmemory-policy"] == "volatile-ttl"
    assert lines["bind"] == "127.0.0.1"
    assert lines["maxmemory"] == f"{Sizes().redis_max}mb"


def test_a_settings_file_reads_back_as_it_was() -> None:
    values: dict[str, dict[str, Any]] = {
        "app": {"name": 'a "quoted" näme', "env": "dev"},
        "redis": {"port": 7, "tls": True},
        "kafka": {"group": "g", "client": {"socket.keepalive.enable": "true"}},
        "event": {"features": {"km": {"pointer": "/a/b", "scale": 0.001}, "plain": "/c"}},
    }
    assert tomllib.loads(render.settings_toml(values)) == values


def test_the_stacks_addresses_win_over_a_users_and_the_rest_is_kept(tmp_path: Path) -> None:
    base: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap": "far:9092", "group": "mine"},
        "job": {"sla_ms": 300},
    }
    merged = stack_settings(plan(str(tmp_path)), base, {"job": {"lanes": 2}})
    path = tmp_path / "tidemill.toml"
    path.write_text(render.settings_toml(merged))
    settings = load_settings(path, environ={})
    assert settings.kafka.bootstrap == plan().kafka
    assert settings.kafka.group == "mine"
    assert (settings.job.sla_ms, settings.job.lanes) == (300, 2)
    assert settings.worker.address == f"unix:{tmp_path}/worker.sock"


def test_security_of_a_real_cluster_does_not_reach_the_local_one(tmp_path: Path) -> None:
    base: dict[str, dict[str, Any]] = {
        "kafka": {"security_protocol": "SASL_SSL", "sasl_username": "u", "group": "mine"},
        "redis": {"tls": True, "password_file": "/run/secrets/redis", "ttl_s": 60},
        "worker": {"tls_ca": "ca.pem"},
    }
    path = tmp_path / "tidemill.toml"
    path.write_text(render.settings_toml(stack_settings(plan(str(tmp_path)), base, {})))
    settings = load_settings(path, environ={})
    assert (settings.kafka.security_protocol, settings.kafka.sasl_username) == ("", "")
    assert (settings.kafka.group, settings.redis.ttl_s) == ("mine", 60)
    assert not settings.redis.tls
    assert not settings.redis.password
    assert settings.worker.tls_ca == ""


def test_a_long_path_does_not_make_the_sockets_too_long() -> None:
    long = plan("/data/" + "x" * 120)
    assert len(str(long.worker_socket)) < 100
    assert long.worker_socket.parent in long.folders()
    assert plan().worker_socket == Path("/data/stack/worker.sock")
