"""`tidemill init`: write a small application of your own, with a test that passes."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from cli.common import JsonOption, print_json
from tidemill.errors import SettingsError

_TEMPLATES = Path(__file__).parent / "templates"
_DOTTED = {"gitignore": ".gitignore"}  # a dot in front would keep it out of the package
# It becomes part of topic names, the consumer group and Redis keys.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


class ModelKind(StrEnum):
    """What scores: a torch module, or any Python callable on a float32 block."""

    TORCH = "torch"
    CALLABLE = "callable"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init")(init)


def init(
    name: Annotated[str, typer.Argument(help="Name of the application: a-z, 0-9 and dashes.")],
    model: Annotated[
        ModelKind, typer.Option(help="A torch module, or any callable on a float32 block.")
    ] = ModelKind.TORCH,
    out: Annotated[Path | None, typer.Option(help="Folder to write. Default: ./NAME.")] = None,
    json_: JsonOption = False,
) -> None:
    """Write an application for another domain: event mapping, schema, model, rules, test."""
    folder = out or Path(name)
    written = write_application(name, model, folder)
    if json_:
        print_json({"name": name, "folder": str(folder), "files": written})
        return
    typer.echo(f"wrote {len(written)} files to {folder}: {', '.join(written)}")
    typer.echo(f"next: cd {folder}, python train.py, pytest; README.md says how to go on")


def write_application(name: str, model: ModelKind, folder: Path) -> list[str]:
    """Write the files of an application; returns their names.

    Raises SettingsError if the name can't be used or the folder holds anything.
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"name {name!r} can't be used in topics and keys: start with a letter, then a-z, 0-9"
            " and dashes, 40 at most"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} exists already: name another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sorted((*(_TEMPLATES / "app").iterdir(), *(_TEMPLATES / model).iterdir())):
        if source.suffix != ".tmpl":
            continue
        target = _DOTTED.get(source.stem, source.stem)
        text = Template(source.read_text("utf-8")).substitute(name=name)
        (folder / target).write_text(text, "utf-8")
        written.append(target)
    return sorted(written)
