"""Contract: fitted rules are a rule file that the rule engine takes, and say what the data say."""

from __future__ import annotations

import numpy as np

from models.fit_rules import fit_rules
from models.spec import FeatureSpec
from operators.rules import RuleEngine

FEATURES = (FeatureSpec("hour", required=True), FeatureSpec("km", required=True))


def test_classes_that_differ_get_what_differs() -> None:
    hours = np.tile([3.0, 9.0, 20.0], 200)
    km = np.repeat([1.0, 5.0], 300)
    labels = 10 + np.where(hours >= 12, 4.0, 0.0) + np.where(km >= 2, 7.0, 0.0)
    block = np.stack([hours, km], axis=1).astype(np.float32)
    tables = [("km", (2.0,)), ("hour", (6.0, 12.0))]
    rules = fit_rules(block, labels, ["hour", "km"], tables, "minutes")
    engine = RuleEngine.from_dict(rules, FEATURES, ["minutes"])
    assert np.abs(engine.score(block)[:, 0] - labels).mean() < 1.5
    assert np.abs(np.median(labels) - labels).mean() > 3.0


def test_a_class_with_few_rows_says_nothing() -> None:
    block = np.zeros((100, 2), np.float32)
    block[:5, 0] = 9.0
    labels = np.where(block[:, 0] > 0, 100.0, 1.0)
    rules = fit_rules(block, labels, ["hour", "km"], [("hour", (5.0,))], "minutes")
    assert rules["outputs"]["minutes"]["rules"] == []
    assert rules["outputs"]["minutes"]["start"] == 1.0
