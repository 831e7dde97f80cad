"""Has every embedded tool ready: `python -m deploy.fetch`, a step of the set-up."""

from __future__ import annotations

import sys

from deploy.errors import ToolError
from deploy.tools import Tools


def main() -> int:
    """Fetch what misses and say which tools were taken; 1 if something can't be had."""
    tools = Tools(say=_say)
    try:
        tools.fetch_all()
        for line in tools.report():
            _say(line)
    except ToolError as error:
        _say(str(error))
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"setup: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
