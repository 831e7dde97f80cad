"""docs/bring-your-own.md, followed: its files are written, its commands are run, in its order.

A block whose info string says `file=NAME` is that file's new content; a `bash` block is run in the
application's folder and must succeed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.local.stack import down

PAGE = "docs/bring-your-own.md"
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMANDS = {"tidemill": ["-m", "cli.main"], "python": [], "pytest": ["-m", "pytest"]}


@dataclass
class Reader:
    """Somebody who follows a page: a folder, a PATH with our commands, and what was printed."""

    folder: Path
    checkout: Path
    printed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        for name, arguments in _COMMANDS.items():
            script = bin_folder / name
            script.write_text(f'#!/bin/sh\nexec {" ".join([sys.executable, *arguments])} "$@"\n')
            script.chmod(0o755)
        self.path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        self.at = self.folder

    def run(self, commands: str) -> None:
        """Run a block; where it ends is where the next one starts."""
        where = self.folder / "cwd"
        environ = os.environ | {
            "PATH": self.path,
            "PYTHONPATH": str(self.checkout),
            "COLUMNS": "200",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f'{commands}\npwd > "{where}"'],
            cwd=self.at,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        self.printed[commands.strip()] = done.stdout
        self.at = Path(where.read_text().strip())

    def follow(self, page: str) -> None:
        """Do what the blocks of a page say."""
        for language, name, body in _BLOCK.findall(page):
            if name:
                (self.at / name).write_text(body)
            elif language == "bash":
                self.run(body)

    def output_of(self, command: str) -> str:
        """What the block with ``command`` in it printed."""
        (found,) = (text for commands, text in self.printed.items() if command in commands)
        return found


@pytest.fixture
def reader(tmp_path: Path, checkout: Path) -> Iterator[Reader]:
    """A reader whose stack, if the page leaves one, is ended."""
    reader = Reader(tmp_path, checkout)
    try:
        yield reader
    finally:
        if (tmp_path / "payments" / "run").exists():
            down(tmp_path / "payments" / "run")


def test_the_page_works_as_written(reader: Reader, checkout: Path) -> None:
    reader.follow((checkout / PAGE).read_text("utf-8"))
    answer = json.loads(reader.output_of("tidemill predict @event.json").splitlines()[-1])
    assert answer["status"] == "ok"
    assert answer["model"] == "payments"
    assert 0.0 <= answer["outputs"]["fraud_risk"] <= 1.0
    assert reader.output_of("python ask.py").startswith("ok {'fraud_risk': ")
    assert "refused, as it should be" in reader.output_of("tidemill dlq list")
    assert "missing_field" in reader.output_of("tidemill dlq list")
    assert not (reader.at / "run" / "stack.json").exists()


def test_the_page_shows_every_file_that_it_needs(checkout: Path) -> None:
    blocks = _BLOCK.findall((checkout / PAGE).read_text("utf-8"))
    named = {name for _, name, _ in blocks if name}
    assert named >= {"event.json", "schema.py", "tidemill.toml", "data.py", "rules.json"}


@pytest.mark.parametrize("kind", ["torch", "callable"])
def test_a_new_application_passes_its_own_test(kind: str, reader: Reader) -> None:
    reader.run(f"tidemill init machines --model {kind} && cd machines && pytest -q -W error")
    assert re.search(r"\d+ passed", reader.output_of("pytest"))
    reader.run("python train.py")
    assert (reader.at / "model" / "model.json").exists()
    assert shutil.which("python", path=reader.path) == str(reader.folder / "bin" / "python")
