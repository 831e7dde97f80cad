"""Run benches by name: `python -m bench hop e2e_latency`; `all` runs all of them; without a name, list them.

A bench is `bench/NAME.py` with `run(report: Report) -> None`.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from bench.report import Report, conditions

_NOT_BENCHES = {"__init__", "__main__", "report"}


def names() -> list[str]:
    """All benches."""
    found = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in found if name not in _NOT_BENCHES and name[0] != "_")


def main() -> int:
    """Run the named benches one after the other; 1 if one of them raised."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    wanted = parser.parse_args().names
    if not wanted:
        print("\n".join(names()))
        return 0
    if wanted == ["all"]:
        wanted = names()
    if unknown := sorted(set(wanted) - set(names())):
        print(f"no bench {', '.join(unknown)}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    for line in conditions():
        print(f"# {line}", flush=True)
    for name in wanted:
        import_module(f"bench.{name}").run(Report(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
