"""A job for a cluster that has neither our jars nor our packages: `submit --ship`."""

from __future__ import annotations

import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from deploy.flink_rest import FlinkRest
from deploy.local import services
from deploy.local.stack import up
from deploy.submit import submit
from deploy.tools import Tools
from deploy.topics import create_topics
from tests.support.model_folder import write_model
from tests.support.orders import Orders
from tidemill.contracts import result_key
from tidemill.settings import load_settings


class FlinkAlone(Tools):
    """The jars of a cluster of somebody else's."""

    @property
    def flink_jars(self) -> list[Path]:
        """Flink's own, and flink-python, which has to lie in lib (FLINK-37727)."""
        own = sorted((self.flink_home / "lib").glob("*.jar"))
        return [*own, *sorted((self.flink_home / "opt").glob("flink-python-*.jar"))]


def test_an_order_is_answered_on_a_cluster_without_anything_of_ours(
    tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path / "model")
    overlay: dict[str, dict[str, Any]] = {"model": {"path": str(model)}, "job": {"sla_ms": 20_000}}
    with monkeypatch.context() as elsewhere:
        installed = Path(sysconfig.get_paths()["purelib"])
        elsewhere.setattr(services, "python_path", lambda: [installed])
        stack = up(tmp_path / "stack", tools=FlinkAlone(), settings=overlay)
    with stack:
        settings = load_settings(stack.settings_path, environ={})
        create_topics(settings)
        job_id = submit(
            stack.flink_address,
            stack.settings_path,
            tools,
            cluster_python=sys.executable,
            ship=True,
        )
        flink = FlinkRest(stack.flink_address)
        flink.wait_running(job_id, 180)
        orders = Orders(settings)
        orders.send("shipped")
        orders.flush()
        end = time.monotonic() + 60
        with Redis(port=stack.redis_port) as redis:
            while not redis.exists(result_key(settings.prefix, "shipped")):
                assert time.monotonic() < end, flink.root_cause(job_id)
                time.sleep(0.1)
        assert flink.exceptions(job_id) == []
