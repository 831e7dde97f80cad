"""Recorded cases for the tests here: `--cases-dir DIR`, or `../shared/cases` beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded_cases import load_cases


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases-dir", default=None, help="folder of recorded cases (*.json)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cases(groups, names): run for the recorded cases of these")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("cases")
    if marker is None:
        return
    named = metafunc.config.getoption("--cases-dir", default=None)
    folder = Path(named or metafunc.config.rootpath.parent / "shared" / "cases")
    groups, names = marker.kwargs.get("groups", ()), marker.kwargs.get("names", ())
    cases = [
        case
        for path in sorted(folder.glob("*.json"))
        for case in load_cases(path)
        if case.group in groups or case.name in names
    ]
    if not cases:
        reason = f"no recorded cases in {folder}: name their folder with --cases-dir"
        metafunc.parametrize("case", [pytest.param(None, marks=pytest.mark.skip(reason=reason))])
        return
    metafunc.parametrize("case", cases, ids=[case.name for case in cases])
