"""Has every embedded tool ready: `python -m deploy.fetch`, a step of the set-up.

With `--flink-lib DIR` it fills the lib folder of a cluster instead, as an image's build does.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from deploy.errors import ToolError
from deploy.tools import Tools


def main() -> int:
    """Fetch what misses and say which tools were taken; 1 if something can't be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flink-lib", type=Path, help="copy a cluster's jars into this folder")
    lib: Path | None = parser.parse_args().flink_lib
    tools = Tools(say=_say)
    try:
        if lib is not None:
            fill_lib(tools, lib)
            return 0
        tools.fetch_all()
        for line in tools.report():
            _say(line)
    except ToolError as error:
        _say(str(error))
        return 1
    return 0


def fill_lib(tools: Tools, lib: Path) -> None:
    """Copy every jar that the lib folder of a cluster needs; raises ToolError."""
    lib.mkdir(parents=True, exist_ok=True)
    for jar in tools.flink_jars:
        shutil.copy2(jar, lib / jar.name)


def _say(line: str) -> None:
    sys.stdout.write(f"setup: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
