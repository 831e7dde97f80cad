"""Golden vectors: inputs with the outputs that the model must give, saved when it was exported.

Decides: whether a loaded model is the one that was trained. Must not know: torch, sockets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.merge import Block

GOLDEN_FILE = "golden.json"


class GoldenMismatchError(RuntimeError):
    """The loaded model gives other answers than when it was exported: don't serve it."""


@dataclass(frozen=True, slots=True)
class Golden:
    """`inputs` float32 [n, features], `outputs` float32 [n, outputs], and how far off is still equal.

    The tolerance covers another order of summation (threads, CPU generation), not another model.
    """

    inputs: Block
    outputs: Block
    rtol: float = 1e-3
    atol: float = 1e-3

    def tiled(self, rows: int) -> Golden:
        """The same vectors, repeated or cut to `rows`."""
        index = np.arange(rows) % len(self.inputs)
        return Golden(self.inputs[index], self.outputs[index], self.rtol, self.atol)

    def check(self, actual: Block, what: str) -> None:
        """Raises GoldenMismatchError, naming the worst value."""
        expected = self.outputs
        if actual.shape != expected.shape:
            raise GoldenMismatchError(f"{what}: shape {actual.shape}, expected {expected.shape}")
        close = np.isclose(actual, expected, self.rtol, self.atol)
        if close.all():
            return
        off = np.where(close, 0.0, np.nan_to_num(np.abs(actual - expected), nan=np.inf))
        row, column = np.unravel_index(int(off.argmax()), off.shape)
        raise GoldenMismatchError(
            f"{what}: {int((~close).sum())} of {close.size} golden outputs differ; the worst is row"
            f" {row} output {column}: {actual[row, column]!r}, expected {expected[row, column]!r}"
            f" (rtol {self.rtol}, atol {self.atol}): the files of the model don't belong together"
        )


def save_golden(golden: Golden, folder: Path) -> None:
    """Write `folder/golden.json`."""
    body = {
        "inputs": golden.inputs.tolist(),
        "outputs": golden.outputs.tolist(),
        "rtol": golden.rtol,
        "atol": golden.atol,
    }
    (folder / GOLDEN_FILE).write_text(json.dumps(body) + "\n", "utf-8")


def load_golden(folder: Path) -> Golden | None:
    """None if the model has none. Raises GoldenMismatchError if the file is broken."""
    path = folder / GOLDEN_FILE
    if not path.exists():
        return None
    try:
        body = json.loads(path.read_text("utf-8"))
        inputs = np.asarray(body["inputs"], np.float32)
        outputs = np.asarray(body["outputs"], np.float32)
        golden = Golden(inputs, outputs, float(body["rtol"]), float(body["atol"]))
    except (ValueError, KeyError, TypeError) as error:
        raise GoldenMismatchError(f"{path} can't be read: {error!r}") from error
    if inputs.ndim != 2 or outputs.ndim != 2 or len(inputs) != len(outputs) or not len(inputs):
        raise GoldenMismatchError(f"{path}: shapes {inputs.shape} and {outputs.shape} don't fit")
    return golden
