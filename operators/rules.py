"""The rule tier: an answer from a few readable rules, without a worker, as data.

A rule file is JSON, kept beside the model as `rules.json`::

    {
      "v": 1,
      "outputs": {
        "delay_min": {
          "start": 8.0,
          "rules": [
            {"why": "evenings run late", "when": {"hour": {"from": 17, "below": 22}}, "add": 6.5},
            {"why": "long flights gain time", "add": -0.004, "per": "distance_km"},
            {"when": {"carrier": {"is": ["EV", "B6"]}, "wind_ms": {"above": 12}}, "multiply": 1.2}
          ],
          "low": -30, "high": 300
        }
      }
    }

Every output of the model needs an entry.  Its value is `start`, changed by its rules in order, then
kept within `low` and `high`.  A rule applies to the rows for which all of `when` holds (all rows if
there is none): `from` (>=), `above` (>), `to` (<=), `below` (<), `is` and `not` (a value or a list).
Categories are written by name, `null` is any unseen one; flags are true or false.  It does one of
`add`, `multiply`, `set`; `per` multiplies what is added or set by a feature.  `why` is for readers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.spec import FLOAT32_MAX, FeatureSpec
from operators.errors import RuleError, shown

RULES_VERSION: Final = 1
RULES_FILE: Final = "rules.json"

Block = NDArray[np.float32]
_Column = NDArray[np.float64]
_Mask = NDArray[np.bool_]
_Compare = Callable[[_Column, float], _Mask]
_LIMITS: Final[Mapping[str, _Compare]] = {
    "from": lambda column, limit: column >= limit,
    "above": lambda column, limit: column > limit,
    "to": lambda column, limit: column <= limit,
    "below": lambda column, limit: column < limit,
}
_TESTS: Final = (*_LIMITS, "is", "not")
_ACTIONS: Final = ("add", "multiply", "set")
_RULE_KEYS: Final = ("why", "when", "per", *_ACTIONS)
_OUTPUT_KEYS: Final = ("start", "rules", "low", "high")


@dataclass(frozen=True, slots=True)
class _Condition:
    column: int
    test: str
    values: tuple[float, ...]

    def holds(self, block: _Column) -> _Mask:
        column: _Column = block[:, self.column]
        if self.test in _LIMITS:
            return _LIMITS[self.test](column, self.values[0])
        found: _Mask = np.isin(column, self.values, invert=self.test == "not")
        return found


@dataclass(frozen=True, slots=True)
class _Rule:
    when: tuple[_Condition, ...]
    action: str
    amount: float
    per: int | None

    def apply(self, result: _Column, block: _Column) -> None:
        """Change ``result`` in place in the rows that meet the conditions."""
        rows = np.ones(len(block), dtype=np.bool_)
        for condition in self.when:
            rows &= condition.holds(block)
        amount = self.amount if self.per is None else self.amount * block[rows, self.per]
        if self.action == "add":
            result[rows] += amount
        elif self.action == "multiply":
            result[rows] *= amount
        else:
            result[rows] = amount


@dataclass(frozen=True, slots=True)
class _Output:
    start: float
    rules: tuple[_Rule, ...]
    low: float
    high: float

    def score(self, block: _Column) -> _Column:
        result = np.full(len(block), self.start)
        for rule in self.rules:
            rule.apply(result, block)
        clipped: _Column = np.clip(result, self.low, self.high)
        return clipped


class RuleEngine:
    """Scores float32 blocks by rules."""

    def __init__(self, outputs: Sequence[_Output], width: int) -> None:
        self._outputs = tuple(outputs)
        self._width = width

    @classmethod
    def load(
        cls, path: Path, features: Sequence[FeatureSpec], outputs: Sequence[str]
    ) -> RuleEngine:
        """Read a rule file; raises RuleError naming the file and the remedy."""
        try:
            data = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise RuleError(f"{path} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise RuleError(f"{path} is not JSON: {error}") from error
        try:
            return cls.from_dict(data, features, outputs)
        except RuleError as error:
            raise RuleError(f"{path}: {error}") from error

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], features: Sequence[FeatureSpec], outputs: Sequence[str]
    ) -> RuleEngine:
        """Check rules against the model's features and outputs; raises RuleError."""
        if not isinstance(data, Mapping) or data.get("v") != RULES_VERSION:
            version = data.get("v") if isinstance(data, Mapping) else None
            raise RuleError(
                f"rules have version {shown(version)}, this program reads 1: set v to 1"
            )
        _known("the rules", data, ("v", "outputs"))
        entries = _table("outputs", data.get("outputs"))
        _known("outputs", entries, outputs)
        missing = [name for name in outputs if name not in entries]
        if missing:
            raise RuleError(f"output {missing[0]!r} has no entry: every output needs one")
        parser = _Parser(features)
        return cls([parser.output(name, entries[name]) for name in outputs], len(features))

    def score(self, block: Block) -> Block:
        """Outputs [n, outputs] of the rows [n, features]; always finite."""
        if block.ndim != 2 or block.shape[1] != self._width:
            raise RuleError(f"a block of shape {block.shape}, expected [n, {self._width}]")
        exact = block.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            columns = [output.score(exact) for output in self._outputs]
        starts = np.array([output.start for output in self._outputs])
        scores = np.column_stack(columns)
        return np.where(np.isnan(scores), starts, scores).astype(np.float32)


class _Parser:
    """Turns checked data into rules; every error names where it is."""

    def __init__(self, features: Sequence[FeatureSpec]) -> None:
        self._features = {feature.name: (i, feature) for i, feature in enumerate(features)}

    def output(self, name: str, data: Any) -> _Output:
        entry = _table(f"outputs.{name}", data)
        _known(f"outputs.{name}", entry, _OUTPUT_KEYS)
        rules = entry.get("rules", [])
        if not isinstance(rules, Sequence) or isinstance(rules, str):
            raise RuleError(f"outputs.{name}.rules must be a list")
        low = _number(f"outputs.{name}.low", entry.get("low", -FLOAT32_MAX))
        high = _number(f"outputs.{name}.high", entry.get("high", FLOAT32_MAX))
        start = _number(f"outputs.{name}.start", entry.get("start"))
        if not low <= start <= high:
            raise RuleError(f"outputs.{name}: start {start:g} is outside {low:g}..{high:g}")
        parsed = tuple(self._rule(f"outputs.{name}.rules[{i}]", r) for i, r in enumerate(rules))
        return _Output(start, parsed, low, high)

    def _rule(self, where: str, data: Any) -> _Rule:
        rule = _table(where, data)
        _known(where, rule, _RULE_KEYS)
        actions = [action for action in _ACTIONS if action in rule]
        if len(actions) != 1:
            raise RuleError(f"{where} has {actions or 'no action'}: give one of {_ACTIONS}")
        action = actions[0]
        per = None
        if "per" in rule:
            if action == "multiply":
                raise RuleError(f"{where}: `per` goes with add or set, not with multiply")
            per, _ = self._feature(f"{where}.per", rule["per"])
        conditions = [
            condition
            for name, tests in _table(f"{where}.when", rule.get("when", {})).items()
            for condition in self._conditions(f"{where}.when", name, tests)
        ]
        return _Rule(tuple(conditions), action, _number(f"{where}.{action}", rule[action]), per)

    def _conditions(self, where: str, name: Any, data: Any) -> Iterable[_Condition]:
        column, feature = self._feature(where, name)
        tests = _table(f"{where}.{name}", data)
        _known(f"{where}.{name}", tests, _TESTS)
        for test, value in tests.items():
            at = f"{where}.{name}.{test}"
            if test in _LIMITS:
                if feature.dtype in ("category", "bool"):
                    raise RuleError(f"{at}: a {feature.dtype} has no order, use `is` or `not`")
                yield _Condition(column, test, (_number(at, value),))
            else:
                values = value if isinstance(value, list) else [value]
                yield _Condition(column, test, tuple(_code(at, feature, v) for v in values))

    def _feature(self, where: str, name: Any) -> tuple[int, FeatureSpec]:
        if name not in self._features:
            raise RuleError(f"{where}: no feature {shown(name)}{_suggest(name, self._features)}")
        return self._features[name]


def _code(where: str, feature: FeatureSpec, value: Any) -> float:
    """The number that stands for ``value`` in the block."""
    if feature.dtype == "category":
        if value is None and feature.unseen:
            return float(len(feature.categories))
        if value not in feature.categories:
            hint = _suggest(value, feature.categories)
            raise RuleError(f"{where}: {shown(value)} is no category of {feature.name}{hint}")
        return float(feature.categories.index(value))
    if feature.dtype == "bool":
        if not isinstance(value, bool):
            raise RuleError(f"{where} is {shown(value)}: a flag is true or false")
        return float(value)
    # what the block holds: a float32
    return float(np.float32(_number(where, value)))


def _table(where: str, data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise RuleError(f"{where} is {shown(data)}: an object is expected")
    return data


def _known(where: str, data: Mapping[str, Any], allowed: Iterable[str]) -> None:
    names = list(allowed)
    for key in data:
        if key not in names:
            raise RuleError(f"{where} has the unknown key {shown(key)}{_suggest(key, names)}")


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RuleError(f"{where} is {shown(value)}: a number is expected")
    if not math.isfinite(value) or abs(value) > FLOAT32_MAX:
        raise RuleError(f"{where} is {shown(value)}: it must fit float32")
    return float(value)


def _suggest(name: object, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(str(name), names, 1, cutoff=0.5)  # short names have few letters
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(names)}"
