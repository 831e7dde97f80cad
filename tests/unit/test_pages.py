"""Contract: what the pages show exists: commands, options, links, settings, targets of make."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli.main import app
from tests import pages
from tidemill.errors import SettingsError
from tidemill.settings import SECTIONS, load_settings

IDS = [page.name for page in pages.PAGES]
SETTING = re.compile(rf"(?:{'|'.join(SECTIONS)})\.[a-z_]+")
VARIABLE = re.compile(r"TIDEMILL_([A-Z]+)__([A-Z_]+)")
OTHER_FILES = {"model.json", "event.json", "rules.json", "logs.md", "metrics.md"}
every_page = pytest.mark.parametrize("page", pages.PAGES, ids=IDS)


def commands(page: Path) -> list[list[str]]:
    """Arguments of each `tidemill` call in a block of shell commands."""
    found = []
    for block in pages.blocks(page, "bash", "sh", ""):
        for line in block.text.replace("\\\n", " ").splitlines():
            call = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?tidemill (.*)", line.strip())
            if call:
                found.append(shlex.split(call.group(1).split("||")[0], comments=True))
    return found


def find(words: list[str]) -> tuple[Any, list[str]]:
    """The command that ``words`` begin with, and what is left of them."""
    command: Any = get_command(app)
    rest = list(words)
    while rest and hasattr(command, "get_command"):
        inner = command.get_command(None, rest[0])
        assert inner is not None, f"there is no command `tidemill {' '.join(words)}`"
        command, rest = inner, rest[1:]
    return command, rest


@every_page
def test_every_shown_call_is_one_that_the_command_line_takes(page: Path) -> None:
    for words in commands(page):
        command, rest = find(words)
        command.make_context(" ".join(words), rest)


@every_page
def test_every_mentioned_command_and_option_exists(page: Path) -> None:
    for code in pages.inline_code(page):
        if not code.startswith("tidemill "):
            continue
        command, rest = find(shlex.split(code)[1:])
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        for word in rest:
            assert not word.startswith("--") or word in known, f"`{code}`: no option {word}"


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in pages.links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in pages.anchors(target), f"{page.name} links to {link}"


@every_page
def test_every_target_of_make_exists(page: Path) -> None:
    targets = set(
        re.findall(r"^([a-z]+(?: [a-z]+)*):", pages.read(pages.ROOT / "Makefile"), re.MULTILINE)
    )
    known = {name for group in targets for name in group.split()}
    shown = " ".join([*pages.inline_code(page), *(b.text for b in pages.blocks(page, "bash", ""))])
    calls = re.findall(r"(?:^|\s)make ([a-z]+)", shown)
    assert set(calls) <= known


@every_page
def test_every_setting_exists(page: Path) -> None:
    sections: dict[str, Any] = dict(SECTIONS)
    known = {f"{name}.{f.name}" for name, section in sections.items() for f in fields(section)}
    named = {code for code in pages.inline_code(page) if SETTING.fullmatch(code)} - OTHER_FILES
    assert named - known == set()
    variables = {f"{s}.{k}".lower() for s, k in VARIABLE.findall(pages.read(page))}
    secrets = {name.removesuffix("_file") for name in variables}
    assert {name for name in secrets if name not in known and name != "section.key"} == set()


@every_page
def test_blocks_of_code_can_be_read(page: Path) -> None:
    for block in pages.blocks(page, "python", "json", "toml"):
        if block.language == "python":
            ast.parse(block.text)
        elif block.language == "json":
            json.loads(block.text)
        else:
            tomllib.loads(block.text)


@every_page
def test_blocks_of_settings_are_settings(page: Path, tmp_path: Path) -> None:
    for block in pages.blocks(page, "toml"):
        secret = tmp_path / "secret"
        secret.write_text("s")
        text = re.sub(r'(password_file = )"[^"]*"', rf'\1"{secret}"', block.text)
        file = tmp_path / "tidemill.toml"
        file.write_text(text)
        try:
            load_settings(file, environ={})
        except SettingsError as error:
            pytest.fail(f"{page.name}: {error}")
