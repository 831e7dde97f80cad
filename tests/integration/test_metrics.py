"""Contract: what docs/metrics.md and docs/logs.md promise, on a real worker, relay and cluster.

One supervised worker, one job and one relay see records of every kind; then all are scraped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric

from deploy.local.ports import HeldPorts
from deploy.local.stack import RunningStack
from tests.metrics_page import (
    FLINK_TYPE,
    JOB_PREFIX,
    documented,
    families,
    flinks_own,
    labels_of,
    scrape,
)
from tests.support import models
from tests.support.deployment import Deployment

SCORING = f"{JOB_PREFIX}tidemill_scoring_"
DECODE = f"{JOB_PREFIX}tidemill_decode_"
FLINK_LABELS = {
    "job_id", "job_name", "task_id", "task_name", "task_attempt_id", "task_attempt_num",
    "operator_id", "operator_name", "subtask_index", "tm_id", "host",
}  # fmt: skip
ROWS = 40
OLD_MS = 3_600_000


class Watched:
    """A deployment whose three kinds of processes can be scraped."""

    def __init__(self, job: Deployment, log_starts: dict[Path, int]) -> None:
        self.job = job
        self._log_starts = log_starts

    def worker(self) -> dict[str, Metric]:
        """Families of the worker."""
        return families(scrape(self.job.settings.metrics.worker_port))

    def relay(self) -> dict[str, Metric]:
        """Families of the relay."""
        return families(scrape(self.job.settings.metrics.relay_port))

    def flink(self) -> dict[str, Metric]:
        """Families of the whole cluster, samples of other jobs left out."""
        merged: dict[str, Metric] = {}
        for port in self.job.stack.plan.ports.flink_metrics:
            try:
                found = families(scrape(port))
            except OSError:
                continue  # more ports are kept free than processes run
            for name, family in found.items():
                kept = merged.setdefault(name, Metric(name, family.documentation, family.type))
                kept.samples += [
                    sample
                    for sample in family.samples
                    if sample.labels.get("job_name", self.job.name) == self.job.name
                ]
        return {name: family for name, family in merged.items() if family.samples}

    def lines(self, name: str) -> list[str]:
        """Lines that a log got since this test began."""
        path = self.job.stack.plan.logs / name
        if not path.exists():
            return []
        return path.read_bytes()[self._log_starts.get(path, 0) :].decode().splitlines()


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    """The sum of the samples with these labels."""
    return sum(
        sample.value for sample in found[name].samples if labels.items() <= sample.labels.items()
    )


def until(true: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, f"{what}: not within {timeout_s} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def watched(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The deployment, after it has seen records of every kind."""
    starts = {path: path.stat().st_size for path in stack.plan.logs.iterdir()}
    with HeldPorts(2) as held:
        worker_port, relay_port = held.numbers
        held.release_all()
    overlay: dict[str, dict[str, Any]] = {
        "metrics": {"worker_port": worker_port, "relay_port": relay_port},
        "logs": {"format": "json"},
    }
    folder = tmp_path_factory.mktemp("watched")
    with Deployment(stack, "watched", folder, overlay, supervised=True) as job:
        relay = ["-m", "cli.main", "relay", "--config", str(job.settings_path)]
        stack.add_program("relay-watched", [sys.executable, *relay])
        job.submit()
        job.warm_up(1)
        send_all_kinds(job)
        yield Watched(job, starts)
        stack.kill("relay-watched")


def send_all_kinds(job: Deployment) -> None:
    """Good, repeated, poisoned, broken and late records, each answered that has a task."""
    good = [f"good-{number}" for number in range(ROWS)]
    for task in good:
        job.orders.send(task, partition=0)
    job.orders.send("raises", trap=models.RAISES)
    job.orders.send("nan", trap=models.NOT_A_NUMBER)
    job.orders.send("wrong", b'{"features":{"a":"x","b":1}}')
    for broken in (b"{", None, b"[]"):
        job.orders.send_raw(broken)
    job.orders.flush()
    job.answers([*good, "raises", "nan", "wrong"])
    for task in good[:5]:
        job.orders.send(task, partition=0)
    # the watermark is behind the newest by out_of_orderness, and this is behind that
    job.orders.send("late", ts_ms=job.orders.now_ms() - OLD_MS)
    job.orders.flush()
    job.answers(["late"])


def test_the_worker_exports_what_the_page_says(watched: Watched) -> None:
    found, page = watched.worker(), documented("Worker")
    assert set(found) == set(page)
    for name, family in found.items():
        assert family.type == page[name].type
        assert labels_of(family) <= page[name].labels, name


def test_the_relay_exports_what_the_page_says(watched: Watched) -> None:
    found, page = watched.relay(), documented("Relay")
    assert set(found) == set(page)
    for name, family in found.items():
        assert family.type == page[name].type
        assert labels_of(family) <= page[name].labels, name


def test_the_job_exports_what_the_page_says(watched: Watched) -> None:
    page = documented("Job", JOB_PREFIX)
    # reasons of answers are an open list: they come into being with the first export after them
    until(lambda: set(page) <= set(watched.flink()), "the job's metrics")
    found = {n: f for n, f in watched.flink().items() if n.startswith(f"{JOB_PREFIX}tidemill_")}
    assert set(found) == set(page)
    for name, family in found.items():
        assert family.type == FLINK_TYPE
        assert labels_of(family, FLINK_LABELS) == page[name].labels, name


def test_the_cluster_exports_what_the_page_explains(watched: Watched) -> None:
    until(lambda: flinks_own() <= set(watched.flink()), "Flink's own metrics")


def test_the_job_counts_what_was_sent(watched: Watched) -> None:
    def settled() -> bool:
        answers = value(watched.flink(), f"{SCORING}answers_status_rows")
        return answers == 1 + ROWS + 4

    until(settled, "the counts of the answers")
    found = watched.flink()
    statuses = {s: value(found, f"{SCORING}answers_status_rows", status=s) for s in ("ok", "error")}
    assert statuses == {"ok": 1 + ROWS, "error": 3}
    assert value(found, f"{SCORING}answers_status_rows", status="late") == 1
    assert value(found, f"{SCORING}answers_tier_rows", tier="full") == 1 + ROWS
    assert value(found, f"{SCORING}answers_tier_rows", tier="none") == 4
    assert value(found, f"{SCORING}in_sla_rows") == 1 + ROWS
    assert value(found, f"{SCORING}answers_reason_rows", reason="wrong_type") == 1
    assert value(found, f"{SCORING}dead_letters_reason_rows", reason="model_error") == 1
    assert value(found, f"{SCORING}dead_letters_reason_rows", reason="non_finite_output") == 1
    for reason in ("malformed_json", "tombstone", "not_an_object", "wrong_type"):
        assert value(found, f"{DECODE}dead_letters_reason_rows", reason=reason) == 1
    assert value(found, f"{DECODE}late_rows") == 1
    assert value(found, f"{DECODE}rows") == 1 + ROWS + 12
    assert value(found, f"{SCORING}duplicate_rows") == 5
    assert value(found, f"{SCORING}pending_rows") == 0
    assert value(found, f"{SCORING}owed_rows") == 0


def test_buckets_are_cumulative_and_count_the_rows(watched: Watched) -> None:
    answers, scored = 1 + ROWS + 4, 1 + ROWS
    found = watched.flink()
    rows = {"latency": answers, "queue": scored, "service": scored, "delivery": answers}
    for stage, count in rows.items():
        name = f"{SCORING}{stage}_seconds_le_bucket"
        buckets = {float(s.labels["le"]): s.value for s in found[name].samples}
        counts = [buckets[edge] for edge in sorted(buckets)]
        assert buckets[float("inf")] == count, stage
        assert counts == sorted(counts), stage
    batches = value(found, f"{SCORING}batches")
    assert value(found, f"{SCORING}batch_rows_le_bucket", le="+Inf") == batches > 0


def test_worker_and_relay_count_what_they_did(watched: Watched) -> None:
    worker = watched.worker()
    assert value(worker, "tidemill_worker_rows_total") >= 1 + ROWS
    assert value(worker, "tidemill_worker_bad_rows_total") >= 1
    assert value(worker, "tidemill_worker_failed_frames_total", reason="model_error") >= 1
    assert value(worker, "tidemill_worker_resident_bytes") > 10e6
    assert value(worker, "tidemill_worker_ready") == 1
    not_owed = {"verdict": "not_owed"}
    until(
        lambda: value(watched.relay(), "tidemill_relay_results_total", **not_owed) == ROWS + 5,
        "the results that the relay has read",
    )
    until(lambda: value(watched.relay(), "tidemill_relay_lag_records") == 0, "the relay's lag of 0")
    assert value(watched.relay(), "tidemill_relay_redis_up") == 1


@pytest.mark.parametrize(
    ("log", "logger"),
    [
        ("worker-watched.out", "models.serve"),
        ("worker-watched.out", "models.supervisor"),
        ("relay-watched.out", "tidemill.relay"),
        ("taskmanager-1.out", "operators."),
    ],
)
def test_json_lines_come_out_of_every_process(watched: Watched, log: str, logger: str) -> None:
    entries = [json.loads(line) for line in watched.lines(log) if line.startswith("{")]
    of_logger = [entry for entry in entries if entry["logger"].startswith(logger)]
    assert of_logger, f"no JSON line of {logger} in {log}"
    for entry in of_logger:
        assert {"time", "level", "logger", "message", "pid"} <= entry.keys()
    if log != "taskmanager-1.out":  # the JVM writes there too
        assert len(entries) == len(watched.lines(log))


def test_nothing_is_logged_once_a_record(watched: Watched) -> None:
    logs = [*(path.name for path in watched.job.stack.plan.logs.iterdir())]
    before = {name: len(watched.lines(name)) for name in logs}
    job, count = watched.job, 300
    tasks = [f"quiet-{number}" for number in range(4 * count)]
    for number, task in enumerate(tasks):
        match number % 4:
            case 0:
                job.orders.send(task)
            case 1:
                job.orders.send(task, trap=models.NOT_A_NUMBER)
            case 2:
                job.orders.send(task, ts_ms=job.orders.now_ms() - OLD_MS)
            case _:
                job.orders.send(task, b"{")
    job.orders.flush()
    job.answers(tasks)
    grown = {name: len(watched.lines(name)) - before[name] for name in logs}
    assert {name: lines for name, lines in grown.items() if lines >= count / 4} == {}
