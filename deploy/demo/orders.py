"""The demo's model and its orders: trained once, and sent only from days that it never saw."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import StackError
from deploy.local.services import base_environment
from models.catalogue import DATASETS, default_data
from models.dataset import DataError, Dataset, Event
from models.spec import ModelSpec, SpecError, load_spec

DATA_SET = "flights"
_HELD_BACK_SHARE = 0.1  # of the later days: orders that are sent late
_TRAIN_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Orders:
    """Recorded orders in the order of their time, each part later than the one before.

    The model has learnt from the days of the warm-up and from none of the others.
    """

    warmup: Sequence[Event]
    held_back: Sequence[Event]
    counted: Sequence[Event]


def trained_model(folder: Path, say: Callable[[str], None]) -> ModelSpec:
    """The model in ``folder``, trained now unless it is there. Raises StackError or DataError.

    Trained in a process of its own: torch stays out of the one that measures.
    """
    dataset = DATASETS[DATA_SET]
    spec = _fitting(folder, dataset)
    if spec is not None:
        say(f"model {spec.name} {spec.version} is there: {folder}")
        return spec
    command = [sys.executable, "-m", "cli.main", "train", DATA_SET, "--json", "--out", str(folder)]
    try:
        done = subprocess.run(
            command,
            env=base_environment(),
            capture_output=True,
            text=True,
            timeout=_TRAIN_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(
            f"training took over {_TRAIN_TIMEOUT_S:.0f} s and was ended: run"
            f" `tidemill train {DATA_SET} --out {folder}` and then the demo again"
        ) from error
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise StackError(f"training ended with status {done.returncode}:\n{said}")
    return load_spec(folder)


def quality(spec: ModelSpec) -> str:
    """What the model is worth, in one line."""
    trained = spec.trained
    unit = spec.outputs[0].unit
    return (
        f"mean error on later days: model {trained['model']:.2f} {unit}, rules"
        f" {trained['rules']:.2f}, constant {trained['constant']:.2f}"
    )


def recorded_orders(spec: ModelSpec, warmup: int) -> Orders:
    """``warmup`` orders for the warm-up, then those of the days on which ``spec`` was judged."""
    dataset = DATASETS[DATA_SET]
    events = dataset.load(default_data(dataset))
    judged = len(events) - int(spec.trained["test_rows"])
    counted = judged + int((len(events) - judged) * _HELD_BACK_SHARE)
    return Orders(
        events[max(0, judged - warmup) : judged], events[judged:counted], events[counted:]
    )


def _fitting(folder: Path, dataset: Dataset) -> ModelSpec | None:
    """The model of an earlier run, if it is of the same data and features."""
    try:
        spec = load_spec(folder)
        same = spec.data_hash == dataset.data_hash(default_data(dataset))
    except (SpecError, DataError):
        return None
    names = [feature.name for feature in dataset.features]
    return spec if same and spec.feature_names == names else None
