"""Write a trained module as a model's folder: package, eager fallback, golden vectors, description.

Decides: the files of a folder and the order in which they appear (`model.json` last: with it the
folder is a model). Must not know: how the module was trained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from models.golden import Golden, save_golden
from models.merge import Block
from models.spec import ModelSpec, save_spec

PACKAGE_FILE = "model.pt2"
EAGER_FILE = "eager.pt"
RULES_FILE = "rules.json"
GOLDEN_ROWS = 64


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to build the module again: "package.module:factory" and its arguments (plain values)."""

    factory: str
    arguments: Mapping[str, Any]


def export_model(
    module: nn.Module,
    spec: ModelSpec,
    recipe: Recipe,
    sample: Block,
    folder: Path,
    rules: Mapping[str, Any] | None = None,
) -> ModelSpec:
    """Write the folder; returns the spec as saved, with its files.

    `sample`: inputs float32 [n, features] of which the golden vectors are taken. Raises ValueError
    if the exported program differs from the module, or gives no finite numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    module.eval()
    golden = _golden(module, sample)
    program = export_program(module, golden.inputs, spec.max_rows)
    with torch.inference_mode():
        exported = program.module()(torch.from_numpy(golden.inputs)).numpy()
    golden.check(exported, f"exported program of {spec.name}")
    torch.export.save(program, folder / PACKAGE_FILE)
    saved = {
        "factory": recipe.factory,
        "arguments": dict(recipe.arguments),
        "state": module.state_dict(),
    }
    torch.save(saved, folder / EAGER_FILE)
    save_golden(golden, folder)
    files = {"package": PACKAGE_FILE, "eager": EAGER_FILE}
    if rules is not None:
        (folder / RULES_FILE).write_text(json.dumps(rules, indent=1) + "\n", "utf-8")
        files["rules"] = RULES_FILE
    spec = replace(spec, kind="torch", files=files)
    save_spec(spec, folder)
    return spec


def export_program(module: nn.Module, inputs: Block, max_rows: int) -> torch.export.ExportedProgram:
    """The module as a torch.export program that takes 1 to `max_rows` rows."""
    rows = torch.export.Dim("rows", min=1, max=max(2, max_rows))
    example = torch.from_numpy(inputs[:2].copy())  # two rows: with one, torch takes 1 as fixed
    return torch.export.export(module, (example,), dynamic_shapes=({0: rows},))


def _golden(module: nn.Module, sample: Block) -> Golden:
    index = np.linspace(0, len(sample) - 1, min(GOLDEN_ROWS, len(sample))).astype(int)
    inputs = np.ascontiguousarray(sample[index], np.float32)
    with torch.inference_mode():
        outputs = module(torch.from_numpy(inputs)).numpy()
    if not np.isfinite(outputs).all():
        raise ValueError("the module's outputs for the golden inputs are not finite")
    return Golden(inputs, outputs)
