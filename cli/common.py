"""What the commands share: which settings file counts, the options of all, and how JSON is shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.errors import SettingsError
from tidemill.settings import Settings, load_settings

DEFAULT_DATA = Path("run")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Settings file. Else TIDEMILL_CONFIG, else the one of the stack in ./run, else"
        " ./tidemill.toml.",
    ),
]
DataOption = Annotated[
    Path, typer.Option("--data", help="Folder of the local stack: data, logs, settings.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def config_path(config: Path | None, data: Path = DEFAULT_DATA) -> Path | None:
    """The settings file that counts, None if there is none."""
    if config is not None:
        return config
    if named := os.environ.get("TIDEMILL_CONFIG"):
        return Path(named)
    for candidate, mark in (
        (data / "tidemill.toml", data / "stack.json"),
        (Path("tidemill.toml"), Path("tidemill.toml")),
    ):
        if mark.is_file() and candidate.is_file():
            return candidate
    return None


def settings_of(config: Path | None, data: Path = DEFAULT_DATA) -> Settings:
    """Load the settings that count."""
    return load_settings(config_path(config, data))


def required_config(config: Path | None) -> Path:
    """The settings file that counts; raises SettingsError if there is none."""
    found = config_path(config)
    if found is None:
        raise SettingsError(
            "no settings file: give --config, or start a local stack with tidemill up"
        )
    return found.absolute()


def print_json(value: Any) -> None:
    """Print one JSON object, with all its keys in the order given."""
    typer.echo(json.dumps(value, default=str))
