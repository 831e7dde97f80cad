"""Where one feature lies in an event, and how its raw value becomes the feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import SettingsError

Scalar = float | int | str | bool


@dataclass(frozen=True)
class FeaturePointer:
    """``feature = raw value * scale``; ``default`` stands in for a value that is absent."""

    pointer: str
    scale: float = 1.0
    default: Scalar | None = None


def feature_pointers(name: str, value: Mapping[str, Any]) -> dict[str, FeaturePointer]:
    """Parse the table `event.features`; raises SettingsError naming the feature."""
    return {feature: _parse(f"{name}.{feature}", entry) for feature, entry in value.items()}


def check_pointer(name: str, pointer: Any) -> str:
    """Return ``pointer`` if it is a JSON pointer or empty, else raise SettingsError."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise SettingsError(f"{name} = {pointer!r} is not a JSON pointer: start it with '/'")
    return pointer


def _parse(name: str, entry: Any) -> FeaturePointer:
    if isinstance(entry, FeaturePointer):
        return entry
    if isinstance(entry, str):
        return FeaturePointer(check_pointer(name, entry))
    if not isinstance(entry, Mapping):
        raise SettingsError(f"{name} = {entry!r} must be a JSON pointer or a table with `pointer`")
    unknown = sorted(set(entry) - {"pointer", "scale", "default"})
    if unknown or "pointer" not in entry:
        what = f"has the unknown key {unknown[0]!r}" if unknown else "has no `pointer`"
        raise SettingsError(f"{name} {what}: use pointer, scale, default")
    scale, default = entry.get("scale", 1.0), entry.get("default")
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not abs(scale) < 1e30:
        raise SettingsError(f"{name}.scale = {scale!r} must be a finite number")
    if default is not None and not isinstance(default, (int, float, str, bool)):
        raise SettingsError(f"{name}.default = {default!r} must be a number, text or bool")
    return FeaturePointer(check_pointer(name, entry["pointer"]), float(scale), default)
