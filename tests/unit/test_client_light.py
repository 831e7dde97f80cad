"""Contract: importing tidemill is quick and drags in nothing of ours, even where another package is
called `models`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "torch", "pyflink", "scipy", "pandas", "psutil", "prometheus_client"}
OURS = {"models", "drift", "operators", "jobs", "deploy", "cli"}
MODULES = sorted(p.stem for p in (ROOT / "tidemill").glob("*.py") if p.stem != "__init__")


def imported(folder: Path, statements: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after ``statements``."""
    script = f"{statements}\nimport sys, json\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{folder}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def hostile(folder: Path) -> Path:
    """A folder whose packages break whoever imports them."""
    for name in OURS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise SystemExit('{name} was imported')")
    return folder


def test_all_of_tidemill_imports_nothing_heavy_and_nothing_of_ours(tmp_path: Path) -> None:
    statements = "\n".join(f"import tidemill.{name}" for name in MODULES)
    statements += "\nfrom tidemill import *"
    assert imported(hostile(tmp_path), statements) & (HEAVY | OURS) == set()


def test_the_package_alone_loads_no_client(tmp_path: Path) -> None:
    found = imported(hostile(tmp_path), "import tidemill")
    assert found & {"confluent_kafka", "hiredis", "redis", "orjson", "asyncio"} == set()


def test_import_takes_less_than_300_ms(tmp_path: Path) -> None:
    """Processor time of the import, so that a busy machine does not decide."""
    script = (
        "import time; start = time.process_time_ns(); from tidemill import Tidemill; "
        "print((time.process_time_ns() - start) / 1e6)"
    )
    took = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert float(took.stdout) < 300


def test_unknown_names_are_attribute_errors() -> None:
    import tidemill

    assert not hasattr(tidemill, "no_such_name")
    assert [name for name in tidemill.__all__ if not hasattr(tidemill, name)] == []
    assert dir(tidemill) == tidemill.__all__
