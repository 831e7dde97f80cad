"""Contract of training: reproducible, and better on later days than a constant and the rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.main import app
from models.catalogue import default_data
from models.dataset import DataError, Dataset, Event
from models.golden import load_golden
from models.merge import Block
from models.sendy import SENDY
from models.spec import FeatureSpec, OutputSpec, load_spec
from models.train import TrainPolicy, train
from operators.rules import RuleEngine
from operators.schema import FeatureSchema


def _events(_: Path) -> list[Event]:
    draw = np.random.default_rng(5)
    return [
        Event(
            order_id=str(i),
            event_time_ms=i * 1000,
            key="k",
            zone="z",
            features={"km": float(km), "kind": str(kind), "rain": None if i % 7 else 2.0},
            label=float(3 * km + (5 if kind == "slow" else 0) + draw.normal()),
            label_time_ms=i * 1000 + 1,
        )
        for i, (km, kind) in enumerate(
            zip(draw.uniform(0, 10, 2000), draw.choice(["fast", "slow"], 2000), strict=True)
        )
    ]


def _dataset(folder: Path) -> Dataset:
    (folder / "made").touch()
    return Dataset(
        name="made",
        folder="made_up",
        files=("made",),
        read=_events,
        features=(
            FeatureSpec("km", low=0, high=50, required=True),
            FeatureSpec("kind", "category", categories=("?",), unseen=True),
            FeatureSpec("rain", default=0.0),
        ),
        output=OutputSpec("minutes", "min"),
        rule_features=(("km", (5.0,)),),
        note="",
    )


def _scorer(
    rules: Mapping[str, Any], features: Sequence[FeatureSpec], outputs: Sequence[str]
) -> Callable[[Block], Block]:
    return RuleEngine.from_dict(rules, features, outputs).score


def test_the_same_seed_and_data_give_the_same_model(tmp_path: Path) -> None:
    policy = TrainPolicy(epochs=4, batch_rows=128)
    dataset = _dataset(tmp_path)
    spec, scores = train(dataset, tmp_path, tmp_path / "a", 1, _scorer, policy)
    again, _ = train(dataset, tmp_path, tmp_path / "b", 1, _scorer, policy)
    other, _ = train(dataset, tmp_path, tmp_path / "c", 2, _scorer, policy)
    assert spec == again
    assert spec.version != other.version
    assert spec == load_spec(tmp_path / "a")
    assert (tmp_path / "a" / "golden.json").read_text() == (
        tmp_path / "b" / "golden.json"
    ).read_text()
    assert scores.wins
    assert spec.trained["model"] == scores.model
    assert spec.features[1].categories == ("fast", "slow")


def test_training_and_serving_pack_an_event_the_same_way(tmp_path: Path) -> None:
    spec, _ = train(_dataset(tmp_path), tmp_path, tmp_path / "a", 1, _scorer, TrainPolicy(epochs=1))
    schema = FeatureSchema.from_spec(spec)
    packed = {
        np.array(schema.pack(features), np.float32).tobytes()
        for event in _events(tmp_path)
        if isinstance(features := event.to_json()["features"], dict)
    }
    golden = load_golden(tmp_path / "a")
    assert golden is not None
    assert {row.tobytes() for row in golden.inputs} <= packed


def _trained(name: str, out: Path) -> dict[str, float]:
    result = CliRunner().invoke(app, ["train", name, "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    shown: dict[str, float] = json.loads(result.stdout)
    return shown


def test_flights_beat_constant_and_rules_on_later_days(tmp_path: Path) -> None:
    shown = _trained("flights", tmp_path)
    assert shown["model"] < shown["rules"] < shown["constant"]
    spec = load_spec(tmp_path)
    assert len(spec.data_hash) == 64
    assert (tmp_path / "rules.json").is_file()


def test_sendy_beats_constant_and_rules_on_later_days(tmp_path: Path) -> None:
    try:
        default_data(SENDY)
    except DataError:
        pytest.skip("the sendy data have no licence and aren't on this machine")
    shown = _trained("sendy", tmp_path)
    assert shown["model"] < shown["rules"] < shown["constant"]


def test_an_unknown_data_set_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", "flight", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "flights, sendy" in result.output
