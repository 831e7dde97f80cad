"""What is sent along to a cluster that has nothing of ours."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from deploy.submit import packed_packages


def test_the_packages_can_be_imported_from_their_zip(tmp_path: Path) -> None:
    packed = packed_packages(tmp_path / "ours.zip")
    code = "import operators.decode, drift.control, models.spec; print(operators.decode.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(packed)!r}); {code}"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.startswith(str(packed))


def test_only_sources_are_packed(tmp_path: Path) -> None:
    names = zipfile.ZipFile(packed_packages(tmp_path / "ours.zip")).namelist()
    assert {"operators/lane_fn.py", "jobs/topology.py", "tidemill/contracts.py"} <= set(names)
    assert {Path(name).suffix for name in names} == {".py"}
