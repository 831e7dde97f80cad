"""What a model takes and gives, as data: `model.json` in the model's folder.

Decides: names, kinds, ranges and defaults of features, the order of the float32 block, the schema id.
Must not know: torch, numpy, Kafka, how a record is decoded.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from tidemill.errors import SettingsError

SPEC_VERSION = 1
SPEC_FILE = "model.json"
FLOAT32_MAX = 3.4028234663852886e38
MAX_BATCH_ROWS = 65_536  # a reply of this many rows still fits the wire's frame limit

DType = Literal["float32", "int", "bool", "category"]
Kind = Literal["torch", "callable"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
DEFAULT_BUCKETS = (1, 8, 16, 32, 64, 128, 256)


class SpecError(SettingsError):
    """The description of a model contradicts itself or can't be read: fix the file, don't retry."""


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """One column of the model's input block.

    A category is sent as its index in `categories`; a value that is not listed becomes the index
    `len(categories)` if `unseen`, and is refused otherwise. A missing value becomes `default`
    (a category without one: the unseen index), and is refused if `required`.
    """

    name: str
    dtype: DType = "float32"
    low: float | None = None
    high: float | None = None
    default: float | str | None = None
    required: bool = False
    unit: str = ""
    categories: tuple[str, ...] = ()
    unseen: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"feature name {self.name!r}: use letters, digits, '_' and '.', 64 at most"
            )
        if self.dtype not in get_args(DType):
            raise SpecError(
                f"feature {self.name}: dtype {self.dtype!r} is none of {get_args(DType)}"
            )
        if (self.dtype == "category") != bool(self.categories):
            raise SpecError(f"feature {self.name}: a category needs `categories`, others have none")
        if len(set(self.categories)) != len(self.categories):
            raise SpecError(f"feature {self.name}: `categories` names a value twice")
        if self.unseen and self.dtype != "category":
            raise SpecError(f"feature {self.name}: only a category may be `unseen`")
        self._check_range()
        if not self.required and self.missing_value is None:
            raise SpecError(f"feature {self.name}: give a default, or say `required: true`")

    def _check_range(self) -> None:
        for limit in (self.low, self.high):
            if limit is not None and not abs(limit) <= FLOAT32_MAX:
                raise SpecError(f"feature {self.name}: limit {limit} is no finite float32")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise SpecError(f"feature {self.name}: low {self.low} > high {self.high}")
        value = self.missing_value
        if value is None or self.dtype == "category":
            return
        if not math.isfinite(value) or abs(value) > FLOAT32_MAX:
            raise SpecError(f"feature {self.name}: default {value} is no finite float32")
        if (self.low is not None and value < self.low) or (
            self.high is not None and value > self.high
        ):
            raise SpecError(
                f"feature {self.name}: default {value} is outside {self.low}..{self.high}"
            )

    @property
    def missing_value(self) -> float | None:
        """The number that stands for a missing value; None if a missing value can't be replaced."""
        if self.dtype == "category":
            if self.default is None:
                return float(len(self.categories)) if self.unseen else None
            if self.default not in self.categories:
                raise SpecError(f"feature {self.name}: default {self.default!r} is not a category")
            return float(self.categories.index(str(self.default)))
        if isinstance(self.default, str):
            raise SpecError(f"feature {self.name}: default {self.default!r} is not a number")
        return None if self.default is None else float(self.default)

    @property
    def cardinality(self) -> int:
        """How many codes a category can take, the unseen one included; 0 for other kinds."""
        return len(self.categories) + (1 if self.unseen else 0)


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One column of the model's output block."""

    name: str
    unit: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"output name {self.name!r}: use letters, digits, '_' and '.', 64 at most"
            )


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model's contract. `trained` and `data_hash` record where it came from, nothing reads them back.

    `kind` torch: `files` names `package` (torch.export) and `eager` (state dict, with the factory that
    builds its module). `kind` callable: `function` is "package.module:name", called with a float32
    block [n, features], returning [n, outputs].
    """

    name: str
    version: str
    features: tuple[FeatureSpec, ...]
    outputs: tuple[OutputSpec, ...]
    buckets: tuple[int, ...] = DEFAULT_BUCKETS
    max_rows: int = 256
    kind: Kind = "torch"
    function: str = ""
    seed: int = 0
    data_hash: str = ""
    trained: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, names in (
            ("feature", [f.name for f in self.features]),
            ("output", [o.name for o in self.outputs]),
        ):
            if not names:
                raise SpecError(f"model {self.name}: at least one {what} is needed")
            if len(set(names)) != len(names):
                raise SpecError(f"model {self.name}: two {what}s share a name: {names}")
        if not self.name or not self.version:
            raise SpecError("a model needs a name and a version")
        if list(self.buckets) != sorted(set(self.buckets)) or not self.buckets:
            raise SpecError(f"model {self.name}: buckets {self.buckets} must ascend")
        if not self.buckets[0] >= 1 or not self.buckets[-1] == self.max_rows <= MAX_BATCH_ROWS:
            raise SpecError(
                f"model {self.name}: the last bucket ({self.buckets[-1]}) must equal max_rows"
                f" ({self.max_rows}), at most {MAX_BATCH_ROWS}"
            )
        if self.kind not in get_args(Kind):
            raise SpecError(f"model {self.name}: kind {self.kind!r} is none of {get_args(Kind)}")
        if (self.kind == "callable") != bool(self.function):
            raise SpecError(
                f"model {self.name}: `function` belongs to kind callable, and to it alone"
            )

    @property
    def feature_names(self) -> list[str]:
        """Columns of the input block, in order."""
        return [feature.name for feature in self.features]

    @property
    def output_names(self) -> list[str]:
        """Columns of the output block, in order."""
        return [output.name for output in self.outputs]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the float32 input block."""
        return 4 * len(self.features)

    @property
    def schema_id(self) -> str:
        """Same id = same meaning of the input block; 16 hex digits."""
        features = [
            {name: _canonical(value) for name, value in asdict(feature).items()}
            for feature in self.features
        ]
        text = json.dumps(features, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical(value: Any) -> Any:
    """0 and 0.0 mean the same limit."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def spec_to_json(spec: ModelSpec) -> dict[str, Any]:
    """The content of `model.json`; `spec_from_json` reads it back."""
    return {"v": SPEC_VERSION, "schema_id": spec.schema_id, **asdict(spec)}


def spec_from_json(data: Mapping[str, Any]) -> ModelSpec:
    """Raises SpecError for another version, unknown or missing keys, or a schema id that doesn't fit."""
    body = dict(data)
    version = body.pop("v", None)
    if version != SPEC_VERSION:
        raise SpecError(f"model.json has version {version!r}; this program reads {SPEC_VERSION}")
    stated = body.pop("schema_id", None)
    try:
        features = tuple(
            FeatureSpec(**{**f, "categories": tuple(f.get("categories", ()))})
            for f in body.pop("features")
        )
        outputs = tuple(OutputSpec(**o) for o in body.pop("outputs"))
        if "buckets" in body:
            body["buckets"] = tuple(body["buckets"])
        spec = ModelSpec(features=features, outputs=outputs, **body)
    except (TypeError, KeyError, AttributeError) as error:
        raise SpecError(f"model.json: missing, unknown or mistyped key: {error}") from error
    if stated is not None and stated != spec.schema_id:
        raise SpecError(
            f"model.json states schema id {stated}, its features have {spec.schema_id}:"
            " they were edited after training; train again or remove the key"
        )
    return spec


def load_spec(folder: Path) -> ModelSpec:
    """Read `folder/model.json`. Raises SpecError, also if there is none or it is no JSON."""
    path = folder / SPEC_FILE
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SpecError(f"no model in {folder}: {error.strerror} ({SPEC_FILE})") from error
    except ValueError as error:
        raise SpecError(f"{path} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise SpecError(f"{path}: an object is expected")
    return spec_from_json(data)


def save_spec(spec: ModelSpec, folder: Path) -> None:
    """Write `folder/model.json`, by rename, so that a reader never sees half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (SPEC_FILE + ".part")
    part.write_text(json.dumps(spec_to_json(spec), indent=1) + "\n", "utf-8")
    part.rename(folder / SPEC_FILE)
