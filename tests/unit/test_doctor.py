"""The doctor's judgements, on machines and services that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.doctor.finding import Finding
from deploy.doctor.machine import (
    MachineFiles,
    check_cores,
    check_disk,
    check_files,
    check_governor,
    check_machine,
    check_memory,
    check_python,
    check_shared_memory,
    check_threads,
)
from deploy.doctor.services import (
    check_ports,
    check_redis,
    check_services,
    flink_slots,
    lib_jars,
    redis_policy,
    redis_version,
)
from deploy.local.ports import HeldPorts
from deploy.tools import Tools
from tidemill.settings import RedisSettings, Settings, load_settings


def machine(root: Path, **files: str) -> MachineFiles:
    """A machine whose kernel files are these; `__` in a name stands for a slash."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return MachineFiles(root)


def assert_helps(finding: Finding, level: str, *words: str) -> None:
    assert finding.level == level
    assert finding.remedy
    assert [w for w in words if w not in f"{finding.found} {finding.remedy}"] == []


def test_python_of_another_version_is_a_problem() -> None:
    assert check_python((3, 11)).level == "ok"
    assert_helps(check_python((3, 12)), "problem", "3.12", "3.11")


def test_memory_counts_what_is_free_and_what_the_group_may_use(tmp_path: Path) -> None:
    plenty = machine(tmp_path / "a", proc__meminfo="MemTotal: 9 kB\nMemAvailable: 8388608 kB\n")
    assert check_memory(plenty).level == "ok"
    little = machine(tmp_path / "b", proc__meminfo="MemAvailable: 1048576 kB\n")
    assert_helps(check_memory(little), "problem", "1024 MiB")
    group = tmp_path / "a" / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(str(2 << 30))
    (group / "memory.current").write_text(str(1 << 30))
    assert_helps(check_memory(plenty), "problem", "1024 MiB")


@pytest.mark.parametrize(("governor", "level"), [("performance", "ok"), ("powersave", "note")])
def test_a_saving_governor_is_noted(tmp_path: Path, governor: str, level: str) -> None:
    path = "sys__devices__system__cpu__cpu0__cpufreq__scaling_governor"
    assert check_governor(machine(tmp_path, **{path: governor})).level == level


def test_a_quota_below_the_cores_is_noted(tmp_path: Path) -> None:
    files = machine(tmp_path, **{"sys__fs__cgroup__cpu.max": "150000 100000"})
    assert_helps(check_cores(files, 4, 8), "note", "1.5", "cpuset")
    assert check_cores(MachineFiles(tmp_path / "none"), 4, 8).level == "ok"
    assert_helps(check_cores(MachineFiles(tmp_path / "none"), 1, 8), "note", "2")


def test_more_threads_than_cores_are_noted() -> None:
    (found,) = check_threads({"OMP_NUM_THREADS": "16"}, 2)
    assert_helps(found, "note", "OMP_NUM_THREADS=16", "2 cores")
    (fine,) = check_threads({"OMP_NUM_THREADS": "2"}, 2)
    assert fine.level == "ok"


def test_shared_memory_files_and_disk(tmp_path: Path) -> None:
    assert_helps(check_shared_memory(tmp_path / "none"), "note", "shm_size")
    assert_helps(check_files(256), "note", "ulimit")
    assert check_files(65536).level == "ok"
    assert check_disk(tmp_path / "not" / "yet").check == "disk"


def test_every_check_of_this_machine_has_a_remedy_or_is_fine(tmp_path: Path) -> None:
    findings = check_machine(Tools(tmp_path / "cache"), tmp_path)
    assert {"python", "java program", "redis program", "jars", "memory", "cores"} <= {
        f.check for f in findings
    }
    assert [f for f in findings if f.level != "ok" and not f.remedy] == []


def test_a_cluster_without_flink_python_in_its_lib_is_a_problem() -> None:
    findings = {f.check: f for f in lib_jars("lib/flink-dist.jar, lib/tidemill-bridge-1.jar")}
    assert_helps(findings["jar flink-python"], "problem", "FLINK-37727", "lib")
    assert findings["jar flink-sql-connector-kafka"].level == "note"
    assert findings["jar tidemill-bridge"].level == "ok"


def test_no_free_slot_is_a_problem_unless_a_job_has_it() -> None:
    none = {"slots-available": 0, "slots-total": 1, "jobs-running": 0}
    assert_helps(flink_slots(none), "problem", "TaskManager")
    assert flink_slots(none | {"jobs-running": 1}).level == "ok"


@pytest.mark.parametrize(
    ("info", "level"),
    [
        ({"redis_version": "6.2.14"}, "problem"),
        ({"redis_version": "7.0.15"}, "ok"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "ok"),
    ],
)
def test_redis_is_new_enough(info: dict[str, Any], level: str) -> None:
    assert redis_version(info).level == level


@pytest.mark.parametrize(
    ("policy", "limit", "level"),
    [("volatile-ttl", 1 << 30, "ok"), ("allkeys-lru", 1 << 30, "note"), ("noeviction", 0, "note")],
)
def test_what_redis_lets_go_first(policy: str, limit: int, level: str) -> None:
    assert redis_policy({"maxmemory_policy": policy, "maxmemory": limit}).level == level


def test_a_port_in_use_names_its_setting() -> None:
    settings = load_settings(environ={}, overrides={"metrics.worker_port": 9464})
    assert_helps(next(check_ports(settings, lambda port: False)), "note", "metrics.worker_port")
    assert next(check_ports(settings, lambda port: True)).level == "ok"
    assert list(check_ports(Settings(), lambda port: False)) == []


def test_services_that_are_away_are_problems_and_no_secret_is_shown() -> None:
    with HeldPorts(2) as held:
        redis, flink = held.numbers
        overrides = {
            "kafka.bootstrap": "127.0.0.1:1",
            "redis.port": redis,
            "redis.password": "very-secret",
            "flink.address": f"127.0.0.1:{flink}",
        }
        findings = check_services(load_settings(environ={}, overrides=overrides))
    assert [f.check for f in findings if f.level == "problem"] == ["kafka", "redis", "flink"]
    assert "very-secret" not in str(findings)


def test_a_redis_that_is_away_is_one_finding() -> None:
    with HeldPorts(1) as held:
        (found,) = check_redis(RedisSettings(port=held.numbers[0]))
    assert_helps(found, "problem", "redis.host")
