"""The command line as a whole: what it lists, how it fails, and what it must not import."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.common import config_path, required_config
from cli.main import COMMANDS, app
from tidemill.errors import SettingsError

RUNNER = CliRunner()


def test_help_lists_every_command() -> None:
    result = RUNNER.invoke(app, ["--help"])
    assert result.exit_code == 0
    assert [name for name in COMMANDS if name not in result.output] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(name: str) -> None:
    result = RUNNER.invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


def test_each_module_registers() -> None:
    for module in set(COMMANDS.values()):
        assert callable(importlib.import_module(module).register)


def test_a_typo_is_no_traceback() -> None:
    result = RUNNER.invoke(app, ["statsu"])
    assert result.exit_code == 2
    assert "statsu" in result.output


def test_a_wrong_setting_ends_with_2_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "tidemill.toml"
    path.write_text("[kafka]\nbootstrp = 'x'\n")
    result = RUNNER.invoke(app, ["topics", "--config", str(path)])
    assert result.exit_code == 2
    assert "bootstrap" in result.output
    assert "Traceback" not in result.output


def test_a_service_that_is_away_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "tidemill.toml"
    path.write_text("[flink]\naddress = '127.0.0.1:1'\n")
    result = RUNNER.invoke(app, ["stop", "--config", str(path)])
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.output


def test_json_is_one_object(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["down", "--data", str(tmp_path / "none"), "--json"])
    assert json.loads(result.output) == {"killed": []}


def test_listing_the_commands_imports_neither_flink_nor_torch() -> None:
    script = (
        "import sys\nfrom typer.testing import CliRunner\nfrom cli.main import app\n"
        "CliRunner().invoke(app, ['--help'])\n"
        "print(sorted({'pyflink', 'torch', 'pandas', 'scipy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_settings_file_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMILL_CONFIG", raising=False)
    assert config_path(None) is None
    with pytest.raises(SettingsError, match="tidemill up"):
        required_config(None)
    own = Path("tidemill.toml")
    own.write_text("")
    assert config_path(None) == own
    Path("run").mkdir()
    (Path("run") / "tidemill.toml").write_text("")
    assert config_path(None) == own  # the stack in ./run is not running
    (Path("run") / "stack.json").write_text("{}")
    assert config_path(None) == Path("run") / "tidemill.toml"
    monkeypatch.setenv("TIDEMILL_CONFIG", "elsewhere.toml")
    assert config_path(None) == Path("elsewhere.toml")
    assert config_path(Path("named.toml")) == Path("named.toml")
