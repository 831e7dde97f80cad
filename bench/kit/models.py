"""The models of the benches, as folders that a worker serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from models.spec import FeatureSpec, ModelSpec, OutputSpec, save_spec

FEATURES = tuple(f"f{i}" for i in range(16))
_SPECS = tuple(FeatureSpec(name, required=True) for name in FEATURES)
_OUTPUTS = (OutputSpec("score"),)
_RULES = {"v": 1, "outputs": {"score": {"start": 0.0, "rules": [], "low": -10, "high": 10}}}
HIDDEN = (64, 64)
SEED = 1

SLEEP_BATCH_MS, SLEEP_ROW_MS, SLEEP_ROWS = 8.0, 0.1, 64
_SLEEPER = f'''"""A model that takes a known time: {SLEEP_BATCH_MS} ms a batch and {SLEEP_ROW_MS} ms a row."""

import time


def score(block):
    time.sleep({SLEEP_BATCH_MS / 1000} + {SLEEP_ROW_MS / 1000} * len(block))
    return block[:, :1]
'''


def write_torch_model(folder: Path) -> ModelSpec:
    """A net of two hidden layers of 64 on 16 numbers, exported as every trained model is."""
    import torch  # 2 s, which benches without it need not pay

    from models.export import Recipe, export_model
    from models.nets import DispatchNet

    width = len(FEATURES)
    arguments: dict[str, Any] = {
        "means": [0.0] * width,
        "deviations": [1.0] * width,
        "categories": [],
        "cardinalities": [],
        "hidden": list(HIDDEN),
        "outputs": 1,
        "centre": 0.0,
        "spread": 1.0,
    }
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    sample = np.random.default_rng(SEED).normal(size=(256, width)).astype(np.float32)
    spec = ModelSpec("bench", "1", _SPECS, _OUTPUTS, seed=SEED)
    recipe = Recipe("models.nets:DispatchNet", arguments)
    return export_model(DispatchNet(**arguments), spec, recipe, sample, folder, _RULES)


def write_sleeping_model(folder: Path) -> ModelSpec:
    """A model that sleeps for a known time, so that what a worker can do is known too."""
    spec = ModelSpec(
        "sleeper",
        "1",
        _SPECS,
        _OUTPUTS,
        buckets=(1, 8, 16, 32, SLEEP_ROWS),
        max_rows=SLEEP_ROWS,
        kind="callable",
        function="sleeper:score",
    )
    save_spec(spec, folder)
    (folder / "sleeper.py").write_text(_SLEEPER, "utf-8")
    (folder / "rules.json").write_text(json.dumps(_RULES), "utf-8")
    return spec
