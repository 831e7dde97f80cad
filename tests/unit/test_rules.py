"""Contract: a rule file says what it does, or fails at the start with the place and the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.spec import FeatureSpec
from operators.errors import RuleError
from operators.rules import RuleEngine

FEATURES = (
    FeatureSpec("hour", dtype="int", required=True),
    FeatureSpec("km", required=True),
    FeatureSpec("carrier", dtype="category", categories=("AA", "EV", "B6"), unseen=True),
    FeatureSpec("rain", dtype="bool", required=True),
)
ROWS = np.array(
    [[18, 100, 1, 0], [9, 50, 0, 1], [17, 0, 3, 0], [22, 10, 2, 1]],
    np.float32,
)


def engine(*rules: dict[str, Any], start: float = 8.0, **limits: float) -> RuleEngine:
    data = {"v": 1, "outputs": {"delay": {"start": start, "rules": list(rules), **limits}}}
    return RuleEngine.from_dict(json.loads(json.dumps(data)), FEATURES, ["delay"])


@pytest.mark.parametrize(
    ("rules", "scores"),
    [
        ([], [8, 8, 8, 8]),
        ([{"add": 1.5}], [9.5, 9.5, 9.5, 9.5]),
        ([{"when": {"hour": {"from": 17, "below": 22}}, "add": 6}], [14, 8, 14, 8]),
        ([{"when": {"hour": {"above": 17, "to": 22}}, "add": 6}], [14, 8, 8, 14]),
        ([{"add": 0.5, "per": "km"}], [58, 33, 8, 13]),
        ([{"when": {"carrier": {"is": "EV"}}, "multiply": 2}], [16, 8, 8, 8]),
        ([{"when": {"carrier": {"is": ["EV", "B6"]}}, "set": 0}], [0, 8, 8, 0]),
        ([{"when": {"carrier": {"is": None}}, "set": 1}], [8, 8, 1, 8]),
        ([{"when": {"carrier": {"not": ["AA", None]}}, "set": 1}], [1, 8, 8, 1]),
        ([{"when": {"rain": {"is": True}}, "add": 1}], [8, 9, 8, 9]),
        ([{"when": {"hour": {"is": [9, 18]}}, "add": 1}], [9, 9, 8, 8]),
        ([{"when": {"rain": {"is": False}, "km": {"above": 0}}, "add": 1}], [9, 8, 8, 8]),
        ([{"when": {"km": {"above": 20}}, "set": 2, "per": "km"}], [200, 100, 8, 8]),
        ([{"add": 2}, {"multiply": 3, "why": "in order"}], [30, 30, 30, 30]),
    ],
)
def test_rules(rules: list[dict[str, Any]], scores: list[float]) -> None:
    result = engine(*rules).score(ROWS)
    assert result.dtype == np.float32
    assert result.tolist() == [[score] for score in scores]


def test_limits_hold_and_outputs_stay_finite() -> None:
    assert engine({"add": 1, "per": "km"}, low=0, high=60).score(ROWS).ravel().tolist() == [
        60,
        58,
        8,
        18,
    ]
    wild = engine(*[{"multiply": 3e38}] * 30, {"multiply": 0})
    assert np.isfinite(wild.score(ROWS)).all()
    big = np.full((1, 4), 3.4e38, np.float32)
    assert np.isfinite(engine({"add": 3.4e38, "per": "km"}).score(big)).all()


def test_no_rows() -> None:
    assert engine().score(np.empty((0, 4), np.float32)).shape == (0, 1)


def test_a_block_of_another_width_is_an_error() -> None:
    with pytest.raises(RuleError, match=r"\(2, 3\), expected \[n, 4\]"):
        engine().score(np.zeros((2, 3), np.float32))


def test_outputs_come_in_the_models_order() -> None:
    data = {"v": 1, "outputs": {"b": {"start": 2}, "a": {"start": 1}}}
    result = RuleEngine.from_dict(data, FEATURES, ["a", "b"]).score(ROWS[:1])
    assert result.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            {"add": 1, "when": {"hours": {"from": 1}}},
            r"rules\[0\].when: no feature 'hours'; did you mean 'hour'",
        ),
        ({"add": 1, "per": "kn"}, "per: no feature 'kn'; did you mean 'km'"),
        ({"add": 1, "when": {"hour": {"form": 1}}}, "unknown key 'form'; did you mean 'from'"),
        ({"add": 1, "when": {"hour": 3}}, r"when.hour is 3: an object"),
        ({"add": 1, "when": []}, "when is an array of 0: an object"),
        ({"add": 1, "when": {"carrier": {"from": 1}}}, "category has no order"),
        (
            {"add": 1, "when": {"carrier": {"is": "EW"}}},
            "'EW' is no category of carrier; did you mean 'EV'",
        ),
        ({"add": 1, "when": {"rain": {"is": 1}}}, "true or false"),
        ({"add": 1, "when": {"hour": {"is": "9"}}}, "'9': a number"),
        ({"ad": 1}, "unknown key 'ad'; did you mean 'add'"),
        ({"when": {}}, "no action"),
        ({"add": 1, "set": 1}, "give one of"),
        ({"multiply": 1, "per": "km"}, "not with multiply"),
        ({"add": "1"}, "add is '1': a number"),
        ({"add": True}, "add is True: a number"),
        ({"add": 1e300}, "must fit float32"),
    ],
)
def test_a_rule_that_cant_be_used_names_its_place(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(RuleError, match=says):
        engine(rule)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "version None"),
        ({"v": 2}, "version 2"),
        ({"v": 1}, "outputs is None"),
        ({"v": 1, "outputs": {}}, "'delay' has no entry"),
        ({"v": 1, "outputs": {"dalay": {"start": 1}}}, "unknown key 'dalay'; did you mean 'delay'"),
        ({"v": 1, "outputs": {"delay": {}}}, "start is None"),
        ({"v": 1, "outputs": {"delay": {"start": 5, "high": 4}}}, "start 5 is outside"),
        ({"v": 1, "outputs": {"delay": {"start": 5, "rules": "x"}}}, "must be a list"),
        ({"v": 1, "outputs": {"delay": {"start": 5}}, "note": 1}, "unknown key 'note'"),
    ],
)
def test_a_file_that_cant_be_used(data: Any, says: str) -> None:
    with pytest.raises(RuleError, match=says):
        RuleEngine.from_dict(data, FEATURES, ["delay"])


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    with pytest.raises(RuleError, match=r"rules.json can't be read"):
        RuleEngine.load(path, FEATURES, ["delay"])
    path.write_text("{")
    with pytest.raises(RuleError, match=r"rules.json is not JSON"):
        RuleEngine.load(path, FEATURES, ["delay"])
    path.write_text('{"v":1,"outputs":{}}')
    with pytest.raises(RuleError, match=r"rules.json: output 'delay'"):
        RuleEngine.load(path, FEATURES, ["delay"])
    path.write_text('{"v":1,"outputs":{"delay":{"start":4}}}')
    assert RuleEngine.load(path, FEATURES, ["delay"]).score(ROWS).tolist() == [[4.0]] * 4
