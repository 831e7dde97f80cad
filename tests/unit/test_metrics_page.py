"""Contract: docs/metrics.md has every metric of worker and relay, and they export what it says."""

from __future__ import annotations

import re

import pytest
from prometheus_client import generate_latest

from models.metrics import WorkerMetrics, render
from models.progress import Progress
from operators.relay_metrics import RelayMetrics
from operators.scoring_stats import ScoringStats
from tests import pages
from tests.metrics_page import (
    JOB_PREFIX,
    OURS,
    PAGE,
    documented,
    families,
    flinks_own,
    labels_of,
)


def worker() -> str:
    metrics = WorkerMetrics(Progress("m", "1"))
    metrics.count_failed("model_error")
    metrics.count_refused("bad_frame")
    return render(metrics).decode()


def relay() -> str:
    return generate_latest(RelayMetrics().registry).decode()


@pytest.mark.parametrize(("heading", "text"), [("Worker", worker()), ("Relay", relay())])
def test_the_page_and_the_process_agree(heading: str, text: str) -> None:
    exported = families(text)
    page = documented(heading)
    assert set(exported) == set(page)
    assert {name: family.type for name, family in exported.items()} == {
        name: row.type for name, row in page.items()
    }
    assert {name: labels_of(family) for name, family in exported.items()} == {
        name: row.labels for name, row in page.items()
    }


def test_what_scoring_counts_is_on_the_page() -> None:
    page = documented("Job", JOB_PREFIX)
    for name in ScoringStats().totals():
        metric, _, rest = name.partition(".")
        label = rest.partition(".")[0]
        end = f"_{label}_{'bucket' if label == 'le' else 'rows'}" if label else ""
        assert f"{JOB_PREFIX}tidemill_scoring_{metric}{end}" in page


def test_queries_use_metrics_that_are_on_the_page() -> None:
    known = {*documented("Worker"), *documented("Relay"), *documented("Job", JOB_PREFIX)}
    known |= flinks_own()
    queries = "\n".join(block.text for block in pages.blocks(PAGE, "promql"))
    # a pattern over two scopes
    queries = re.sub(r"\(decode\|scoring\)", "decode", queries)
    named = {*OURS.findall(queries), *re.findall(r"flink_\w+", queries)}
    assert named
    assert named - known == set()
