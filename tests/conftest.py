"""What all tests share: one real stack for a whole run, and a calm hypothesis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from deploy.local.stack import RunningStack, up
from deploy.tools import Tools
from deploy.topics import create_topics
from tidemill.settings import Settings, load_settings

# no deadline: the machine that runs the tests may be busy, and a slow example is no fault
hypothesis_settings.register_profile("tidemill", deadline=None)
hypothesis_settings.load_profile("tidemill")


@pytest.fixture(scope="session")
def tools() -> Tools:
    """The programs and jars that real services run on."""
    return Tools()


@pytest.fixture(scope="session")
def stack(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """Kafka, Redis and Flink with its topics, started once; ends with the run however it ends."""
    with up(tmp_path_factory.mktemp("stack"), tools=tools) as running:
        create_topics(load_settings(running.settings_path))
        yield running


@pytest.fixture(scope="session")
def stack_settings(stack: RunningStack) -> Settings:
    """The settings of the shared stack."""
    return load_settings(stack.settings_path)


@pytest.fixture
def checkout() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parent.parent
