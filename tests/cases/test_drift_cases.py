"""Recorded drift cases: right values that others got wrong, each through the public functions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cases.drift_adapter import OPS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    named = metafunc.config.getoption("--cases-dir", default=None)
    folder = Path(named or metafunc.config.rootpath.parent / "shared" / "cases")
    cases = [case for path in sorted(folder.glob("*.json")) for case in _drift_cases(path)]
    if not cases:
        reason = f"no recorded drift cases in {folder}: name their folder with --cases-dir"
        metafunc.parametrize("case", [pytest.param(None, marks=pytest.mark.skip(reason=reason))])
        return
    metafunc.parametrize("case", cases, ids=[case["name"] for case in cases])


def test_a_drift_case_has_its_value(case: dict[str, Any]) -> None:
    op = case["input"]["op"]
    assert op in OPS, f"no op {op!r} in the adapter"
    differing = _differences(OPS[op](case["input"]), case["expected"], case.get("tolerance", 0))
    assert not differing, case.get("why", "")


def _drift_cases(path: Path) -> list[dict[str, Any]]:
    entries = json.loads(path.read_text("utf-8"))
    found = entries if isinstance(entries, list) else []
    return [entry for entry in found if "op" in (entry.get("input") or {})]


def _differences(found: Any, expected: Any, tolerance: float, at: str = "") -> list[str]:
    """Where ``found`` is not what was ``expected``; it may say more than that."""
    if isinstance(expected, dict):
        return [
            text
            for key, value in expected.items()
            for text in _differences(found.get(key), value, tolerance, f"{at}.{key}")
        ]
    if isinstance(expected, list):
        if len(found) != len(expected):
            return [f"{at}: {len(found)} values, expected {len(expected)}"]
        return [
            text
            for i, (one, other) in enumerate(zip(found, expected, strict=True))
            for text in _differences(one, other, tolerance, f"{at}[{i}]")
        ]
    if isinstance(expected, bool | str) or expected is None or isinstance(found, bool | str):
        same = found == expected
    else:
        same = found is not None and math.isclose(
            found, expected, rel_tol=1e-12 if tolerance else 0, abs_tol=tolerance
        )
    return [] if same else [f"{at}: {found!r}, expected {expected!r}"]
