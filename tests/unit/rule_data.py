"""A rule engine for lane frames of two features."""

from __future__ import annotations

from models.spec import FeatureSpec
from operators.rules import RuleEngine


def rules_for(value: float) -> RuleEngine:
    """Every row gets ``value``."""
    features = [FeatureSpec(name, required=True) for name in ("a", "b")]
    entry = {"start": value, "rules": [], "low": -1000, "high": 1000}
    return RuleEngine.from_dict({"v": 1, "outputs": {"y": entry}}, features, ["y"])
