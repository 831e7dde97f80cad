"""Contract: `tidemill init` writes a whole application, and never over what is there."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.init import ModelKind, write_application
from cli.main import app
from tidemill.errors import SettingsError
from tidemill.settings import load_settings

FILES = {
    ".gitignore", "README.md", "data.py", "event.json", "net.py", "rules.json", "schema.py",
    "test_app.py", "test_mapping.py", "tidemill.toml", "train.py",
}  # fmt: skip


@pytest.mark.parametrize("kind", list(ModelKind))
def test_every_file_is_written_and_readable(kind: ModelKind, tmp_path: Path) -> None:
    written = write_application("pumps-2", kind, tmp_path / "a")
    assert set(written) == FILES == {path.name for path in (tmp_path / "a").iterdir()}
    for path in (tmp_path / "a").iterdir():
        text = path.read_text()
        assert "$" not in text
        if path.suffix == ".py":
            ast.parse(text)
            assert max(map(len, text.splitlines())) <= 100
        if path.suffix == ".json":
            json.loads(text)
    assert tomllib.loads((tmp_path / "a" / "tidemill.toml").read_text())["app"]["name"] == "pumps-2"


def test_its_settings_name_nothing_that_another_application_has(tmp_path: Path) -> None:
    names = []
    for name in ("a", "b"):
        write_application(name, ModelKind.CALLABLE, tmp_path / name)
        settings = load_settings(tmp_path / name / "tidemill.toml", environ={})
        topics = settings.topics
        names.append(
            {
                topics.orders, topics.outcomes, topics.results, topics.features, topics.control,
                topics.alerts, topics.reports, settings.late_topic, settings.dlq_topic,
                settings.kafka.group, settings.prefix, settings.job.name,
            }
        )  # fmt: skip
    assert names[0].isdisjoint(names[1])
    assert len(names[0]) == 12 - 1  # the group and the job share a name


@pytest.mark.parametrize("name", ["", "Pumps", "1a", "a b", "a/b", "../a", "a_b", "x" * 41, "-a"])
def test_a_name_that_no_topic_may_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't be used in topics"):
        write_application(name, ModelKind.TORCH, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for folder in (tmp_path, tmp_path / "mine"):
        with pytest.raises(SettingsError, match="exists already"):
            write_application("a", ModelKind.TORCH, folder)
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "new"
    done = CliRunner().invoke(
        app, ["init", "a", "--out", str(out), "--json", "--model", "callable"]
    )
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.output)["files"]) == FILES
    again = CliRunner().invoke(app, ["init", "a", "--out", str(out)])
    assert again.exit_code == 2
    assert "exists already" in again.output
