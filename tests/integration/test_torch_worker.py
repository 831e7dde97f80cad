"""Contract of torch models: what is served is what was trained, or it is not served at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from models.export import Recipe, export_model
from models.golden import GOLDEN_FILE
from models.merge import Block
from models.nets import DispatchNet
from models.spec import FeatureSpec, ModelSpec, OutputSpec
from models.torch_model import load_torch_model
from models.worker_config import EXIT_GOLDEN, EXIT_LOAD, WorkerConfig
from tests.workers import WorkerProcess, running, values

FEATURES = (
    FeatureSpec("km", required=True),
    FeatureSpec("kind", "category", categories=("a", "b", "c"), unseen=True),
    FeatureSpec("rain", default=0.0),
)
ARGUMENTS = {
    "means": [5.0, 0.0, 1.0],
    "deviations": [2.0, 1.0, 0.5],
    "categories": [1],
    "cardinalities": [4],
    "hidden": [16, 8],
    "outputs": 1,
    "centre": 20.0,
    "spread": 10.0,
}


def sample(rows: int) -> Block:
    """Rows as the schema packs them."""
    draw = np.random.default_rng(3)
    columns = (draw.normal(5, 2, rows), draw.integers(0, 4, rows), draw.exponential(1, rows))
    return np.stack(columns, axis=1).astype(np.float32)


def net(seed: int) -> DispatchNet:
    """A small net with random weights."""
    torch.manual_seed(seed)
    return DispatchNet(**ARGUMENTS).eval()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of net(1)."""
    folder = tmp_path_factory.mktemp("exported")
    spec = ModelSpec("eta", "1", FEATURES, (OutputSpec("minutes"),), (1, 8, 64), 64)
    recipe = Recipe("models.nets:DispatchNet", ARGUMENTS)
    export_model(net(1), spec, recipe, sample(100), folder)
    return folder


@pytest.fixture
def model(exported: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may break."""
    return Path(shutil.copytree(exported, tmp_path / "model"))


@pytest.fixture
def worker(exported: Path, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker of it."""
    with running(tmp_path, WorkerConfig(str(exported), f"unix:{tmp_path / 'w.sock'}")) as started:
        yield started


def test_every_number_of_rows_gets_the_nets_own_answers(worker: WorkerProcess) -> None:
    client = worker.client()
    assert "serving the eager module" not in worker.text()
    rows = sample(64)
    with torch.inference_mode():
        expected = net(1)(torch.from_numpy(rows))[:, 0].tolist()
    for n in (1, 2, 8, 9, 63, 64):
        answered = values(client.score(n, rows[:n].tolist()))
        assert answered == pytest.approx(expected[:n], rel=1e-4)


def _refused(model: Path, tmp_path: Path, code: int) -> str:
    with running(tmp_path, WorkerConfig(str(model), f"unix:{tmp_path / 'w.sock'}")) as worker:
        assert worker.process.wait(120) == code
        assert not (tmp_path / "w.sock").exists()
        return worker.text()


def test_weights_of_another_training_are_not_served(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    spec = ModelSpec("eta", "1", FEATURES, (OutputSpec("minutes"),), (1, 8, 64), 64)
    export_model(net(2), spec, Recipe("models.nets:DispatchNet", ARGUMENTS), sample(9), other)
    shutil.copy(other / "model.pt2", model / "model.pt2")
    said = _refused(model, tmp_path, EXIT_GOLDEN)
    assert "golden outputs differ" in said
    assert "the files of the model don't belong together" in said


def test_a_model_without_golden_vectors_is_not_served(model: Path, tmp_path: Path) -> None:
    (model / GOLDEN_FILE).unlink()
    assert "no golden vectors" in _refused(model, tmp_path, EXIT_GOLDEN)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("{", "can't be read"),
        (json.dumps({"inputs": [[1]], "outputs": [], "rtol": 0, "atol": 0}), "don't fit"),
    ],
)
def test_broken_golden_vectors_are_named(
    model: Path, tmp_path: Path, broken: str, words: str
) -> None:
    (model / GOLDEN_FILE).write_text(broken)
    assert words in _refused(model, tmp_path, EXIT_GOLDEN)


def test_the_eager_module_serves_when_the_package_is_unreadable(
    model: Path, tmp_path: Path
) -> None:
    (model / "model.pt2").write_bytes(b"no package")
    with running(tmp_path, WorkerConfig(str(model), f"unix:{tmp_path / 'w.sock'}")) as worker:
        rows = sample(3)
        with torch.inference_mode():
            expected = net(1)(torch.from_numpy(rows))[:, 0].tolist()
        answered = values(worker.client().score(1, rows.tolist()))
        assert answered == pytest.approx(expected, rel=1e-4)
        assert "serving the eager module" in worker.text()


def test_without_any_readable_file_nothing_is_served(model: Path, tmp_path: Path) -> None:
    for name in ("model.pt2", "eager.pt"):
        (model / name).write_bytes(b"no package")
    assert "model eta in" in _refused(model, tmp_path, EXIT_LOAD)


def test_a_code_outside_its_table_is_no_crash(exported: Path) -> None:
    spec = ModelSpec("eta", "1", FEATURES, (OutputSpec("y"),), files={"package": "model.pt2"})
    served = load_torch_model(exported, spec, "cpu", 1)
    outputs = served.run(np.array([[5, 99, 1], [5, -1, 1], [5, 3, 1], [5, 0, 1]], np.float32))
    assert outputs[0] == outputs[2]
    assert outputs[1] == outputs[3]
