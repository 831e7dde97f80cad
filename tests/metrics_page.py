"""The metrics that docs/metrics.md promises, and those that a process really exports."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests import pages

PAGE = pages.ROOT / "docs" / "metrics.md"
JOB_PREFIX = "flink_taskmanager_job_task_operator_"
OURS = re.compile(rf"(?:{JOB_PREFIX})?tidemill_\w+")
# Kinds that Flink's reporter knows are one to Prometheus.
FLINK_TYPE = "gauge"


@dataclass(frozen=True)
class Documented:
    """One row of the page; ``name`` is whole, as Prometheus sees it."""

    name: str
    type: str
    labels: frozenset[str]


def documented(heading: str, prefix: str = "") -> dict[str, Documented]:
    """The metrics of one section of the page."""
    rows = pages.table(pages.section(PAGE, heading))
    found = {}
    for name, kind, _unit, labels, *_ in (row for row in rows if len(row) == 5):
        whole = prefix + name.strip("`")
        found[whole] = Documented(whole, kind, frozenset(re.findall(r"`(\w+)`", labels)))
    assert found, f"no table under {heading}"
    return found


def flinks_own() -> set[str]:
    """The metrics of Flink itself that the page explains."""
    return {row[0].strip("`") for row in pages.table(pages.section(PAGE, "Flink and Kafka"))}


def scrape(port: int) -> str:
    """What a process on this machine exports."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def families(text: str) -> dict[str, Metric]:
    """By the name that the page uses: with `_total` for counters."""
    found: dict[str, Metric] = {}
    for family in text_string_to_metric_families(text):
        # the time of birth that prometheus-client adds to each counter and histogram
        if not family.name.endswith("_created"):
            found[family.name + ("_total" if family.type == "counter" else "")] = family
    return found


def labels_of(family: Metric, others: Iterable[str] = ()) -> frozenset[str]:
    """Labels of a family's samples, less those of its kind and ``others``."""
    names = {name for sample in family.samples for name in sample.labels}
    if family.type == "histogram":
        names.discard("le")
    return frozenset(names - set(others))
