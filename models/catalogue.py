"""The data sets that we know, by name, and where they are looked for."""

from __future__ import annotations

from pathlib import Path

from models.dataset import DataError, Dataset
from models.flights import FLIGHTS
from models.sendy import SENDY

DATASETS = {dataset.name: dataset for dataset in (FLIGHTS, SENDY)}

_REPOSITORY = Path(__file__).resolve().parent.parent


def default_data(dataset: Dataset) -> Path:
    """The repository's own data folder, else the one shared beside it. Raises DataError."""
    folders = [_REPOSITORY / "data", _REPOSITORY.parent / "shared" / "data"]
    for folder in folders:
        try:
            dataset.path(folder)
        except DataError:
            continue
        return folder
    raise DataError(
        f"{dataset.name}: not found in {' or '.join(str(f) for f in folders)}. {dataset.note}"
    )
