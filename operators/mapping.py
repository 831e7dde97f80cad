"""Where an event keeps its ids, its time and its features: JSON pointers (RFC 6901), compiled.

Decides how raw values are found, scaled and defaulted.  Must not know: whether they are valid
(operators/schema.py), bytes, frames.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Protocol

from models.spec import FeatureSpec
from operators.errors import MappingError, RecordError
from operators.schema import FeatureSchema, encode_value
from tidemill.contracts import DeadLetterReason as Reason

Path = tuple[str, ...]
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


class Pointer(Protocol):
    """What the settings say about one feature (tidemill.settings.FeaturePointer)."""

    @property
    def pointer(self) -> str:
        """JSON pointer."""

    @property
    def scale(self) -> float:
        """Feature = raw value * scale."""

    @property
    def default(self) -> float | int | str | bool | None:
        """Stands in for an absent value, in the feature's own unit."""


class EventKeys(Protocol):
    """The part of the settings that this module reads (tidemill.settings.EventSettings)."""

    @property
    def id(self) -> str:
        """Pointer to the entity's id."""

    @property
    def event_id(self) -> str:
        """Pointer to the event's own id; empty if it has none."""

    @property
    def event_time(self) -> str:
        """Pointer to the event's time; empty if only the record has one."""

    @property
    def features(self) -> Mapping[str, Pointer]:
        """Features that don't lie at `/features/<name>`."""


@dataclass(frozen=True, slots=True)
class FieldMap:
    """How one feature is read; ``missing`` is its number if it is absent, None if it must not be."""

    feature: FeatureSpec
    pointer: str
    path: Path
    scale: float
    missing: float | None


@dataclass(frozen=True, slots=True)
class EventMapping:
    """Paths into the event.  ``id_paths`` are tried in order: the event's own id, the entity's."""

    id_paths: tuple[Path, ...]
    time_path: Path | None
    time_pointer: str
    fields: tuple[FieldMap, ...]

    @classmethod
    def from_settings(cls, event: EventKeys, schema: FeatureSchema) -> EventMapping:
        """Compile the section `event`; raises MappingError with the remedy."""
        known = {feature.name for feature in schema.features}
        for name in event.features:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {sorted(known)}"
                raise MappingError(f"event.features.{name}: the model has no such feature; {hint}")
        ids = [("event_id", event.event_id), ("id", event.id)]
        return cls(
            tuple(_path(f"event.{key}", pointer) for key, pointer in ids if pointer),
            _path("event.event_time", event.event_time) if event.event_time else None,
            event.event_time,
            tuple(_field(f, event.features.get(f.name)) for f in schema.features),
        )

    def row(self, doc: Mapping[str, Any]) -> tuple[float, ...]:
        """One row of the block in float64; raises RecordError naming every missing feature."""
        try:
            return tuple(_read(field, doc) for field in self.fields)
        except RecordError as error:
            if error.reason is not Reason.MISSING_FIELD:
                raise
            absent = [f for f in self.fields if f.missing is None and resolve(doc, f.path) is None]
            names = ", ".join(f"{f.feature.name} (at {f.pointer})" for f in absent)
            raise RecordError(
                Reason.MISSING_FIELD,
                f"missing: {names}; send them, or say under event.features where they are",
            ) from error


def parse_pointer(pointer: str) -> Path:
    """The keys of a JSON pointer, unescaped; raises MappingError."""
    if not pointer.startswith("/"):
        raise MappingError(f"JSON pointer {pointer!r} must start with '/', like '/order/id'")
    if _BAD_ESCAPE.search(pointer):
        raise MappingError(f"JSON pointer {pointer!r}: write '~0' for '~' and '~1' for '/'")
    return tuple(
        key.replace("~1", "/").replace("~0", "~") for key in pointer.removeprefix("/").split("/")
    )


def resolve(doc: Any, path: Path) -> Any:
    """The value at ``path``, or None if there is none (or a null)."""
    for key in path:
        if type(doc) is dict:
            doc = doc.get(key)
        elif type(doc) is list and _INDEX.fullmatch(key) and int(key) < len(doc):
            doc = doc[int(key)]
        else:
            return None
    return doc


def _path(setting: str, pointer: str) -> Path:
    try:
        return parse_pointer(pointer)
    except MappingError as error:
        raise MappingError(f"{setting}: {error}") from error


def _field(feature: FeatureSpec, entry: Pointer | None) -> FieldMap:
    setting = f"event.features.{feature.name}"
    pointer = entry.pointer if entry else "/features/" + _escape(feature.name)
    scale = entry.scale if entry else 1.0
    if scale != 1.0 and feature.dtype in ("category", "bool"):
        raise MappingError(f"{setting}.scale: a {feature.dtype} can't be scaled; remove it")
    missing = None if feature.required else feature.missing_value
    if entry and entry.default is not None:
        try:
            missing = encode_value(feature, entry.default)
        except RecordError as error:
            raise MappingError(f"{setting}.default can't be used: {error}") from error
    return FieldMap(feature, pointer, _path(setting, pointer), scale, missing)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _read(field: FieldMap, doc: Mapping[str, Any]) -> float:
    value = resolve(doc, field.path)
    if value is None and field.missing is not None:
        return field.missing
    if field.scale != 1.0 and (type(value) is float or type(value) is int):
        value = scaled(value, field.scale)
    try:
        return encode_value(field.feature, value)
    except RecordError as error:
        where = "" if field.scale == 1.0 else f" times {field.scale:g}"
        message = f"{error.message} (at {field.pointer}{where})"
        raise RecordError(error.reason, message) from error


def scaled(value: float, scale: float) -> float:
    """``value * scale`` in float64; an integer beyond it becomes infinite, which is refused later."""
    try:
        return float(value) * scale
    except OverflowError:
        return float("inf")
