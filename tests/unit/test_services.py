"""Environment and command line of the services, as far as getting them wrong breaks a job."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.local.plan import Ports, StackPlan
from deploy.local.process import STACK_MARK
from deploy.local.services import Services, base_environment, python_path
from deploy.tools import Tools, checkout_dir


@pytest.fixture
def services(tmp_path: Path, tools: Tools) -> Services:
    ports = Ports.of(range(20000, 20000 + Ports.needed()))
    return Services(StackPlan(tmp_path, ports), tools)


def test_the_interpreter_in_the_jvm_finds_its_own_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/some/other/python/bin")
    first = base_environment()["PATH"].split(":")[0]
    assert (Path(first) / "python3").samefile(sys.executable)


def test_operators_import_our_packages_and_the_installed_ones() -> None:
    assert base_environment()["PYTHONPATH"] == ":".join(map(str, python_path()))
    assert checkout_dir() in python_path()
    assert any((path / "pyflink").is_dir() for path in python_path())


def test_variables_that_change_how_a_service_starts_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strange = ("FLINK_CONF_DIR", "JAVA_TOOL_OPTIONS", "KAFKA_OPTS", "TIDEMILL_KAFKA__BOOTSTRAP")
    for name in strange:
        monkeypatch.setenv(name, "x")
    assert not base_environment().keys() & set(strange)


def test_a_submission_keeps_secrets_but_not_the_mark_of_a_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEMILL_REDIS__PASSWORD", "s")
    monkeypatch.setenv(STACK_MARK, "/some/stack")
    env = base_environment(keep_settings=True)
    assert env["TIDEMILL_REDIS__PASSWORD"] == "s"
    assert STACK_MARK not in env


def test_every_process_carries_the_mark_of_its_stack(services: Services, tmp_path: Path) -> None:
    for service in (services.redis(), services.kafka(), services.job_manager()):
        assert service.env[STACK_MARK] == str(tmp_path)


def test_our_programs_get_this_stacks_settings(services: Services, tmp_path: Path) -> None:
    worker = services.program("worker", ("tidemill", "worker"))
    assert worker.env["TIDEMILL_CONFIG"] == str(tmp_path / "tidemill.toml")


def test_task_managers_differ_in_name_log_and_identity(services: Services) -> None:
    one, two = services.task_manager(1), services.task_manager(2)
    assert (one.name, two.name) == ("taskmanager-1", "taskmanager-2")
    logs = [next(a for a in tm.argv if a.startswith("-Dlog.file")) for tm in (one, two)]
    assert logs[0] != logs[1]
    assert one.argv[-1] != two.argv[-1]


def test_pyflink_finds_the_chosen_java_on_task_managers(services: Services, tools: Tools) -> None:
    home = services.task_manager(1).env["JAVA_HOME"]
    assert (Path(home) / "bin" / "java").samefile(tools.java)


def test_a_broker_folder_is_prepared_once(services: Services, tmp_path: Path) -> None:
    assert services.kafka_format() is not None
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "meta.properties").write_text("")
    assert services.kafka_format() is None
