"""One scoring job, warm, for all tests of this folder; each test has task ids of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.stack import RunningStack
from tests.integration.scoring.limits import MARGIN_MS, OUT_OF_ORDERNESS_MS, SLA_MS
from tests.support.deployment import Deployment
from tests.support.views import Views


@pytest.fixture(scope="package")
def job(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The job; at its end, no record may have made it restart or a checkpoint fail."""
    overlay: dict[str, dict[str, Any]] = {
        "job": {"sla_ms": SLA_MS, "out_of_orderness_ms": OUT_OF_ORDERNESS_MS},
        "batch": {"margin_ms": float(MARGIN_MS)},
    }
    with Deployment(stack, "scoring", tmp_path_factory.mktemp("scoring"), overlay) as deployed:
        deployed.submit()
        deployed.warm_up()
        yield deployed
        assert deployed.flink.exceptions(deployed.job_id) == []
        assert deployed.failed_checkpoints() == []
        assert deployed.flink.checkpoints(deployed.job_id)["counts"]["completed"] > 0


@pytest.fixture(scope="package")
def views(job: Deployment) -> Iterator[Views]:
    """The topics that the job writes."""
    with Views(job) as opened:
        yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Task ids begin with the name of their test, made short but kept apart."""
    found = str(request.node.name).removeprefix("test_").replace("[", "-").replace("]", "")
    return f"{found[:40]}-{found.rpartition('-')[2]}"
