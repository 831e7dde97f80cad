"""A full disk under the checkpoints: scoring goes on, `status` names it, and it heals by itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.chaos import full_disk


def test_a_full_state_folder_is_named_and_costs_no_answer(tmp_path: Path, checkout: Path) -> None:
    """In user and mount namespaces of its own, so that filling a disk needs neither root nor luck."""
    unshare = shutil.which("unshare")
    assert unshare is not None
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "--mount",
         sys.executable, "-m", full_disk.__name__, tmp_path],
        capture_output=True, text=True, cwd=checkout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    (line, *others) = [line for line in seen["problems"] if "full" in line]
    assert "flink/checkpoints is full" in line, others
    assert "free some space" in line
    assert (seen["before"], seen["during"], seen["after"]) == (50, 50, 50)
