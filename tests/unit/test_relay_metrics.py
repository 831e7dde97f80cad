"""Contract: docs/relay.md names every metric of the relay and every verdict."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import generate_latest

from operators.relay import Verdict
from operators.relay_metrics import RelayMetrics

PAGE = Path(__file__).parents[2] / "docs" / "relay.md"


def test_every_metric_is_documented() -> None:
    text = generate_latest(RelayMetrics().registry).decode()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    page = PAGE.read_text(encoding="utf-8")
    shown = {name for name in names if f"`{name}`" in page or f"`{name}{{" in page}
    assert names - shown - {name for name in names if name.endswith("_created")} == set()
    assert [verdict for verdict in Verdict if f"`{verdict}`" not in page] == []
