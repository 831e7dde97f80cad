"""Contract: a model's description is checked when it is made, and reads back as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from models.spec import (
    FeatureSpec,
    ModelSpec,
    OutputSpec,
    SpecError,
    load_spec,
    save_spec,
    spec_from_json,
    spec_to_json,
)

SPEC = ModelSpec(
    name="eta",
    version="3",
    features=(
        FeatureSpec("km", low=0, high=500, required=True, unit="km"),
        FeatureSpec("carrier", "category", categories=("AA", "B6"), unseen=True),
        FeatureSpec("rain", default=0.5, low=0),
    ),
    outputs=(OutputSpec("minutes", "min"),),
    buckets=(1, 8),
    max_rows=8,
    trained={"model": 1.5},
    files={"package": "model.pt2"},
)


def test_a_saved_spec_reads_back_the_same(tmp_path: Path) -> None:
    save_spec(SPEC, tmp_path / "new")
    assert load_spec(tmp_path / "new") == SPEC
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.json"]


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (FeatureSpec("x", default=2.5), 2.5),
        (FeatureSpec("x", required=True), None),
        (FeatureSpec("x", "category", categories=("a", "b"), default="b"), 1.0),
        (FeatureSpec("x", "category", categories=("a", "b"), unseen=True), 2.0),
    ],
)
def test_what_stands_for_a_missing_value(feature: FeatureSpec, value: float | None) -> None:
    assert feature.missing_value == value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FeatureSpec("1x", default=0), "feature name"),
        (lambda: FeatureSpec("x"), "give a default"),
        (lambda: FeatureSpec("x", "float64", default=0), "dtype"),  # type: ignore[arg-type]
        (lambda: FeatureSpec("x", low=2, high=1, default=1), "low 2 > high 1"),
        (lambda: FeatureSpec("x", low=2, default=1), "outside"),
        (lambda: FeatureSpec("x", default=1e39), "no finite float32"),
        (lambda: FeatureSpec("x", default=float("nan")), "no finite float32"),
        (lambda: FeatureSpec("x", low=float("-inf"), default=0), "no finite float32"),
        (lambda: FeatureSpec("x", default="a"), "not a number"),
        (lambda: FeatureSpec("x", "category", default="a"), "categories"),
        (lambda: FeatureSpec("x", categories=("a",), default=0), "categories"),
        (lambda: FeatureSpec("x", "category", categories=("a", "a"), unseen=True), "twice"),
        (lambda: FeatureSpec("x", "category", categories=("a",), default="b"), "not a category"),
        (lambda: FeatureSpec("x", "category", categories=("a",)), "give a default"),
        (lambda: FeatureSpec("x", unseen=True, default=0), "only a category"),
        (lambda: OutputSpec(""), "output name"),
        (lambda: replace(SPEC, features=()), "at least one feature"),
        (lambda: replace(SPEC, outputs=SPEC.outputs * 2), "share a name"),
        (lambda: replace(SPEC, buckets=(8, 1)), "ascend"),
        (lambda: replace(SPEC, buckets=(0, 8)), "last bucket"),
        (lambda: replace(SPEC, max_rows=16), "must equal max_rows"),
        (lambda: replace(SPEC, kind="onnx"), "kind"),  # type: ignore[arg-type]
        (lambda: replace(SPEC, kind="callable"), "function"),
        (lambda: replace(SPEC, function="a:b"), "function"),
        (lambda: replace(SPEC, version=""), "version"),
    ],
)
def test_a_contradiction_is_named(make: Callable[[], object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        make()


def test_the_schema_id_changes_with_the_meaning_of_the_block_and_with_nothing_else() -> None:
    assert replace(SPEC, version="4", max_rows=8, trained={}).schema_id == SPEC.schema_id
    turned = replace(SPEC, features=SPEC.features[::-1])
    assert turned.schema_id != SPEC.schema_id


def test_features_edited_after_training_are_found() -> None:
    body = json.loads(json.dumps(spec_to_json(SPEC)))
    body["features"][0]["high"] = 600
    with pytest.raises(SpecError, match="edited after training"):
        spec_from_json(body)
    del body["schema_id"]
    assert spec_from_json(body).features[0].high == 600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "an object"),
        ('{"v": 2}', "version 2"),
        ('{"v": 1}', "missing"),
        ('{"v": 1, "features": [], "outputs": [], "name": "a", "version": "1"}', "at least one"),
        ('{"v": 1, "features": [{"nam": "x"}], "outputs": []}', "nam"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(SpecError, match=words):
        load_spec(tmp_path)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no model in"):
        load_spec(tmp_path / "none")


def test_a_spec_of_the_first_version_is_still_read() -> None:
    old = {
        "v": 1,
        "schema_id": "f59895933f4993c9",
        "name": "eta",
        "version": "1",
        "features": [{"name": "km", "dtype": "float32", "low": 0, "high": 9, "default": 1.0}],
        "outputs": [{"name": "minutes", "unit": "min"}],
        "buckets": [1, 8],
        "max_rows": 8,
    }
    assert spec_from_json({**old, "schema_id": None}).row_bytes == 4
    assert spec_from_json(old).output_names == ["minutes"]
