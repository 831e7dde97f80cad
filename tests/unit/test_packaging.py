"""What a stranger installs: pins, extras, packages, and nothing that points at one machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("tidemill", "models", "drift", "operators", "jobs", "deploy", "cli")
HEAVY = ("torch", "apache-flink", "numpy", "scipy", "pyarrow", "pandas")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def pins() -> dict[str, str]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found.group().lower().replace("_", "-")


def test_everything_asked_for_is_pinned_exactly(project: dict[str, Any]) -> None:
    pinned = {name.lower().replace("_", "-") for name in pins()}
    extras = project["project"]["optional-dependencies"]
    asked = {name_of(r) for r in project["project"]["dependencies"]}
    asked |= {name_of(r) for extra in extras.values() for r in extra}
    assert asked - {"tidemill"} <= pinned


def test_pins_name_no_place() -> None:
    text = (REPOSITORY / "constraints.txt").read_text()
    assert "://" not in text
    assert " @ " not in text
    assert len(pins()) > 80


def test_exact_versions_of_the_project_and_the_pins_agree(project: dict[str, Any]) -> None:
    for extra in project["project"]["optional-dependencies"].values():
        for requirement in extra:
            name, _, version = requirement.partition("==")
            if version:
                assert pins()[name] == version


def test_the_base_install_is_light(project: dict[str, Any]) -> None:
    base = {name_of(requirement) for requirement in project["project"]["dependencies"]}
    assert base.isdisjoint(HEAVY)


def test_every_package_is_shipped_with_its_data(project: dict[str, Any]) -> None:
    setuptools = project["tool"]["setuptools"]
    assert setuptools["packages"]["find"]["include"] == [f"{name}*" for name in PACKAGES]
    shipped = {pattern.rpartition("*")[2] for pattern in setuptools["package-data"]["*"]}
    for package in PACKAGES:
        for path in (REPOSITORY / package).rglob("*"):
            if path.suffix in (".java", ".lua", ".json", ".toml", ".properties", ".tmpl"):
                assert path.suffix in shipped, path
    assert (REPOSITORY / "tidemill" / "py.typed").is_file()


def test_one_license() -> None:
    text = (REPOSITORY / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
