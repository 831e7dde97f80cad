"""The reference as a file beside the model, checked by its own hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from drift import codec
from drift.reference import Column, Floors, Reference, ReferencePolicy
from drift.slots import SlotPolicy
from drift.vocabulary import Vocabulary
from tidemill.errors import ContractError

KIND: Final = "drift reference"
VERSION: Final = 1
FILE_NAME: Final = "drift-reference.tmd"


def encode_reference(reference: Reference) -> bytes:
    """The bytes of a reference; equal references give equal bytes."""
    slots = reference.policy.slots
    meta = {
        "model": reference.model,
        "model_version": reference.version,
        "columns": [_column_data(column) for column in reference.columns],
        "cells": reference.policy.cells,
        "bins": reference.policy.bins,
        "slots": {"kind": slots.kind, "offset_ms": slots.offset_ms, "min_rows": slots.min_rows},
        "dtype": reference.dtype,
        "edges": [len(own) for own in reference.edges],
    }
    return codec.encode(
        KIND,
        VERSION,
        meta,
        edges=np.concatenate([own.astype(reference.dtype) for own in reference.edges]),
        counts=codec.narrow(reference.counts),
        at_edge=codec.narrow(reference.at_edge),
        floors=_floor_array(reference),
    )


def decode_reference(data: bytes) -> Reference:
    """Read a reference; raises ContractError on damaged or other-version bytes."""
    content = codec.decode(KIND, VERSION, data)
    meta, arrays = content.meta, content.arrays
    ends = np.cumsum(meta["edges"])[:-1]
    return Reference(
        model=meta["model"],
        version=meta["model_version"],
        columns=tuple(_column(item) for item in meta["columns"]),
        policy=ReferencePolicy(meta["cells"], meta["bins"], SlotPolicy(**meta["slots"])),
        edges=tuple(np.split(arrays["edges"], ends)),
        counts=arrays["counts"].astype(np.int64),
        at_edge=arrays["at_edge"].astype(np.int64),
        dtype=meta["dtype"],
        floors=Floors(*arrays["floors"]) if arrays["floors"].size else None,
    )


def reference_id(reference: Reference) -> str:
    """The reference's hash, hex sha256: what reports, events and commands name it by."""
    return codec.digest(encode_reference(reference))


def save_reference(reference: Reference, folder: Path) -> str:
    """Write the reference into the model's folder at once or not at all; returns its hash."""
    data = encode_reference(reference)
    path = folder / FILE_NAME
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(data)
    unfinished.replace(path)
    return codec.digest(data)


def load_reference(folder: Path, expected_id: str = "") -> Reference:
    """Read the reference of a model's folder.

    Raises ContractError if there is none, it is damaged, or it isn't the one named by its hash.
    """
    path = folder / FILE_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ContractError(f"{folder} has no {FILE_NAME}: build the model's reference") from error
    if expected_id and codec.digest(data) != expected_id:
        raise ContractError(
            f"{path} is reference {codec.digest(data)[:12]}, expected {expected_id[:12]}: rebase to"
            " it, or put the other back"
        )
    return decode_reference(data)


def _floor_array(reference: Reference) -> NDArray[np.float64]:
    floors = reference.floors
    return np.empty((0, 0)) if floors is None else np.stack((floors.psi, floors.ks))


def _column_data(column: Column) -> dict[str, Any]:
    words = column.vocabulary
    if words is None:
        return {"name": column.name}
    return {
        "name": column.name,
        "vocabulary": {
            "values": list(words.values),
            "buckets": words.buckets,
            "declared": words.declared,
        },
    }


def _column(data: dict[str, Any]) -> Column:
    words = data.get("vocabulary")
    if words is None:
        return Column(data["name"])
    return Column(data["name"], Vocabulary(**{**words, "values": tuple(words["values"])}))
