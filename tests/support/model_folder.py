"""Writes the folder of the test model."""

from __future__ import annotations

import json
from pathlib import Path

from models.spec import FeatureSpec, ModelSpec, OutputSpec, save_spec

NAME = "tester"
RULES_OUTPUTS = {"total": -1.0, "difference": -2.0}


def write_model(folder: Path, *, rules: bool = True, version: str = "7") -> Path:
    """A callable model of three features; without ``rules`` there is only the full tier."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = ModelSpec(
        name=NAME,
        version=version,
        features=(
            FeatureSpec("a", required=True),
            FeatureSpec("b", required=True),
            FeatureSpec("trap", dtype="int", low=0, high=3, default=0),
        ),
        outputs=(OutputSpec("total"), OutputSpec("difference")),
        kind="callable",
        function="tests.support.models:score",
    )
    save_spec(spec, folder)
    if rules:
        outputs = {
            name: {"start": value, "rules": [], "low": -10, "high": 10}
            for name, value in RULES_OUTPUTS.items()
        }
        (folder / "rules.json").write_text(json.dumps({"v": 1, "outputs": outputs}))
    return folder
