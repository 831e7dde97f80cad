"""Contracts of the worker's small parts: golden vectors, counting, its command line, callables."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from models.golden import Golden, GoldenMismatchError, load_golden, save_golden
from models.load import ModelLoadError, load_function
from models.merge import Block
from models.metrics import Histogram, WorkerMetrics, render
from models.progress import Progress
from models.restart import Probe
from models.spec import FeatureSpec, ModelSpec, OutputSpec
from models.supervisor import health_address, probe
from models.warm import warm_up
from models.worker_config import WorkerConfig, parse_command

GOLDEN = Golden(
    np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([[3], [7], [11]], np.float32)
)


class Adder:
    """Adds its columns and an error; remembers how many rows it was given."""

    def __init__(self, error: float = 0.0) -> None:
        self.error = error
        self.seen: list[int] = []

    def run(self, block: Block) -> Block:
        """Sum of each row."""
        self.seen.append(len(block))
        return np.asarray(block.sum(axis=1, keepdims=True) + self.error, np.float32)


def test_golden_vectors_read_back(tmp_path: Path) -> None:
    save_golden(GOLDEN, tmp_path)
    read = load_golden(tmp_path)
    assert read is not None
    assert read.inputs.tolist() == GOLDEN.inputs.tolist()
    assert read.outputs.tolist() == GOLDEN.outputs.tolist()
    assert (read.rtol, read.atol) == (GOLDEN.rtol, GOLDEN.atol)


def test_no_golden_vectors_are_none(tmp_path: Path) -> None:
    assert load_golden(tmp_path) is None


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_tiled_vectors_still_belong_together(rows: int) -> None:
    tiled = GOLDEN.tiled(rows)
    assert tiled.inputs.sum(axis=1).tolist() == tiled.outputs[:, 0].tolist()
    assert len(tiled.inputs) == rows


def test_another_order_of_summation_is_equal_and_another_model_is_not() -> None:
    GOLDEN.check(GOLDEN.outputs * np.float32(1.0005), "x")
    off = GOLDEN.outputs.copy()
    off[1] = 7.1
    with pytest.raises(GoldenMismatchError, match=r"bucket 8: 1 of 3 .* row 1 output 0: .*7\.1"):
        GOLDEN.check(off, "bucket 8")
    off[0] = np.nan
    with pytest.raises(GoldenMismatchError, match=r"2 of 3 .* row 0"):
        GOLDEN.check(off, "x")
    with pytest.raises(GoldenMismatchError, match="shape"):
        GOLDEN.check(off[:2], "x")


SPEC = ModelSpec(
    "sum",
    "1",
    (FeatureSpec("a", default=0), FeatureSpec("b", default=0)),
    (OutputSpec("y"),),
    buckets=(1, 4, 8),
    max_rows=8,
    kind="callable",
    function="a:b",
)


def test_warm_up_runs_and_measures_every_bucket_the_largest_first() -> None:
    model = Adder()
    measured = warm_up(SPEC, model, GOLDEN)
    assert list(measured) == [1, 4, 8]
    assert all(us >= 1 for us in measured.values())
    assert model.seen == sorted(model.seen, reverse=True)
    assert set(model.seen) == {1, 4, 8}


def test_warm_up_refuses_a_model_that_answers_otherwise() -> None:
    with pytest.raises(GoldenMismatchError, match="model sum 1, bucket 8"):
        warm_up(SPEC, Adder(error=0.5), GOLDEN)


def test_a_histogram_counts_up_to_and_with_its_edges() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.total == 14.0


def test_metrics_are_prometheus_text() -> None:
    metrics = WorkerMetrics(Progress("eta", "3"), restarts=2)
    metrics.batch_rows.observe(3)
    metrics.count_failed("model_error")
    text = render(metrics).decode()
    for line in (
        "tidemill_worker_restarts_total 2.0",
        'tidemill_worker_batch_rows_bucket{le="2.0"} 0.0',
        'tidemill_worker_batch_rows_bucket{le="4.0"} 1.0',
        'tidemill_worker_batch_rows_bucket{le="+Inf"} 1.0',
        "tidemill_worker_ready 0.0",
        'tidemill_worker_failed_frames_total{reason="model_error"} 1.0',
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize(
    "config",
    [
        WorkerConfig("m", "unix:w"),
        WorkerConfig("m", "tcp://h:1", "unix:h", "tcp://h:2", "a", "b", "c", True, 3, "auto", 4),
        WorkerConfig("m x", "unix:w", drain_s=0.5, restarts=2, parent=77, log_format="json"),
    ],
)
def test_a_command_line_is_read_back(config: WorkerConfig) -> None:
    command = config.command()
    assert command[0] == sys.executable
    assert parse_command(command[3:]) == config


def test_the_health_socket_lies_beside_the_workers(tmp_path: Path) -> None:
    assert str(health_address(WorkerConfig("m", "unix:/a/w.sock"), tmp_path)) == (
        "unix:/a/w.sock.health"
    )
    stated = WorkerConfig("m", "unix:/a/w.sock", health="unix:/b")
    assert str(health_address(stated, tmp_path)) == "unix:/b"
    remote = health_address(WorkerConfig("m", "tcp://h:1"), tmp_path)
    assert remote.path.parent == tmp_path


def test_nobody_at_the_health_socket_is_no_answer(tmp_path: Path) -> None:
    assert probe(tmp_path / "none", 0.1) is None


def test_a_probe_is_what_health_says() -> None:
    at = Progress("eta", "3", service_us={8: 1500}, ready=True, busy_since_ns=10**9, busy_bucket=8)
    assert Probe.from_health(at.health(3 * 10**9)) == Probe(True, 2000.0, 1.5)
    at.busy_since_ns = 0
    assert Probe.from_health(at.health(3 * 10**9)) == Probe(True, 0.0, 0.0)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("json", "package.module:function"),
        ("json:", "package.module:function"),
        ("nowhere.at.all:f", "can't be imported"),
        ("json:no_such", "can't be imported"),
        ("json:__doc__", "not callable"),
    ],
)
def test_a_function_that_is_none_is_named(path: str, words: str) -> None:
    with pytest.raises(ModelLoadError, match=words):
        load_function(path)
