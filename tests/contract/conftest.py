"""One JVM with the bridge's classes for all contract tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.tools import Tools
from tests.contract.bridge_probe import Probe, start_probe


@pytest.fixture(scope="session")
def probe(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    """Asks Java; state is never shared between two questions."""
    with start_probe(tools, tmp_path_factory.mktemp("probe")) as running:
        yield running
