"""The feature schema of a model: which values a record may carry, and the row they become.

``FeatureSchema.pack`` is the strict, readable truth for one row; ``operators/fast_pack.py`` does the
same for whole frames and sends here what it does not like.  Must not know: JSON, frames, Kafka.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from models.spec import FeatureSpec, ModelSpec
from operators.errors import RecordError, shown
from tidemill.contracts import DeadLetterReason as Reason

# From here on, rounding to float32 gives infinity: its largest value and half a step.
FLOAT32_OVERFLOW: Final = float(2**128 - 2**103)
# Up to here, float32 holds every integer; above, neighbours become equal.
INT_EXACT: Final = 2**24


@dataclass(frozen=True, slots=True)
class FeatureSchema:
    """Features in the order of the float32 block."""

    features: tuple[FeatureSpec, ...]
    schema_id: str

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> FeatureSchema:
        """The schema of a model's input."""
        return cls(spec.features, spec.schema_id)

    @property
    def names(self) -> list[str]:
        """Columns of the block, in order."""
        return [feature.name for feature in self.features]

    def pack(self, values: Mapping[str, Any]) -> tuple[float, ...]:
        """One row of the block, in float64, from decoded JSON values by feature name.

        An absent or null value becomes the feature's default.  Raises RecordError that names the
        feature, the value and the limit.  float32 features are rounded to float32 later; a value
        that would become infinite is refused, one that underflows becomes 0.
        """
        return tuple(encode_value(feature, values.get(feature.name)) for feature in self.features)


def encode_value(feature: FeatureSpec, value: Any) -> float:
    """The number that stands for ``value``; raises RecordError."""
    if value is None:
        return _missing(feature)
    if feature.dtype == "category":
        return _category(feature, value)
    if feature.dtype == "bool":
        if type(value) is not bool:
            raise _wrong_type(feature, value, "true or false")
        return float(value)
    return _number(feature, value)


def _missing(feature: FeatureSpec) -> float:
    if feature.required or feature.missing_value is None:
        raise RecordError(
            Reason.MISSING_FIELD,
            f"feature {feature.name} is missing: send it, or map it under its other name"
            " (event.features in the settings)",
        )
    return feature.missing_value


def _category(feature: FeatureSpec, value: Any) -> float:
    if type(value) is not str:
        raise _wrong_type(feature, value, "text, one of its categories")
    if value in feature.categories:
        return float(feature.categories.index(value))
    if feature.unseen:
        return float(len(feature.categories))
    near = get_close_matches(value[:64], feature.categories, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise RecordError(
        Reason.UNKNOWN_CATEGORY,
        f"feature {feature.name} is {shown(value)}, none of its {len(feature.categories)}"
        f" categories{hint}",
    )


def _number(feature: FeatureSpec, value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise _wrong_type(feature, value, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) < FLOAT32_OVERFLOW:
        raise RecordError(
            Reason.NOT_FLOAT32,
            f"feature {feature.name} is {shown(value)}, over the float32 limit of 3.4e38: check its"
            f" unit{_unit(feature)}",
        )
    if feature.dtype == "int":
        _check_integer(feature, value, number)
    if (feature.low is not None and number < feature.low) or (
        feature.high is not None and number > feature.high
    ):
        raise RecordError(
            Reason.OUT_OF_RANGE,
            f"feature {feature.name} is {shown(value)}, its range is {_range(feature)}: check its"
            f" unit{_unit(feature)}, or widen the range in the model's spec",
        )
    return number


def _check_integer(feature: FeatureSpec, value: Any, number: float) -> None:
    if not number.is_integer():
        raise _wrong_type(feature, value, "a whole number")
    if abs(number) > INT_EXACT:
        raise RecordError(
            Reason.NOT_FLOAT32,
            f"feature {feature.name} is {shown(value)}: float32 holds integers exactly up to"
            f" {INT_EXACT} only; send a smaller code, or declare the feature float32",
        )


def _wrong_type(feature: FeatureSpec, value: Any, expected: str) -> RecordError:
    return RecordError(
        Reason.WRONG_TYPE, f"feature {feature.name} is {shown(value)}, expected {expected}"
    )


def _range(feature: FeatureSpec) -> str:
    low = "-inf" if feature.low is None else f"{feature.low:g}"
    high = "inf" if feature.high is None else f"{feature.high:g}"
    return f"{low}..{high}"


def _unit(feature: FeatureSpec) -> str:
    return f" ({feature.unit})" if feature.unit else ""
