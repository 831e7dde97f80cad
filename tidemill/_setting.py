"""What one setting is: its default, its limits and its sentence of documentation.

A section of settings is a frozen dataclass of `setting(...)` fields on the base `Section`, which
checks every value however it was made: from a file, from the environment or in code.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from tidemill._settings_event import feature_pointers
from tidemill.errors import SettingsError

# Options of Kafka clients whose values must not be shown.
_SENSITIVE: Final = re.compile(
    r"password|secret|jaas|token|\.key\.pem|keystore\.key", re.IGNORECASE
)


class Secret:
    """A value that is never shown: repr, str, JSON and errors have only stars."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself; call it only where it is handed to a client."""
        return self._value

    def __repr__(self) -> str:
        return "'***'" if self._value else "''"

    def __str__(self) -> str:
        return "***" if self._value else ""

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))


Options = Mapping[str, str | Secret]
_OPTIONS: Final[Any] = Options


def hide_secrets(options: Mapping[str, str | Secret]) -> dict[str, str | Secret]:
    """The same options, with the values of sensitive names made secrets."""
    return {
        name: Secret(value) if isinstance(value, str) and _SENSITIVE.search(name) else value
        for name, value in options.items()
    }


def reveal_options(options: Mapping[str, str | Secret]) -> dict[str, str]:
    """The options as a client takes them."""
    return {k: v.reveal() if isinstance(v, Secret) else v for k, v in options.items()}


def setting(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of a section: `low` and `high` bound numbers, `choices` closes a list of texts."""
    metadata = {"doc": doc, "low": low, "high": high, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


def about(doc: str) -> dict[str, Any]:
    """Metadata of a field that is no plain value: a secret or a table."""
    return {"doc": doc}


class Section:
    """Base of the sections; ``section`` is the name in files and environment."""

    section: ClassVar[str] = ""

    def __post_init__(self) -> None:
        kinds = field_types(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            name = f"{self.section}.{field.name}"
            value = checked(name, kinds[field.name], field.metadata, getattr(self, field.name))
            object.__setattr__(self, field.name, value)


def field_types(section: type[Section]) -> dict[str, Any]:
    """The types of the fields of a section, resolved."""
    return typing.get_type_hints(section)


def checked(name: str, kind: Any, limits: Mapping[str, Any], value: Any) -> Any:
    """Return ``value`` in the type ``kind`` and inside its limits, else raise SettingsError."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is Secret:
        value = Secret(value) if isinstance(value, str) else value
        if not isinstance(value, Secret):
            raise SettingsError(f"{name} must be a text; its value is a secret and not shown")
        return value
    if typing.get_origin(kind) is not None:
        return _checked_table(name, kind, value)
    if type(value) is not kind:
        raise SettingsError(f"{name} = {value!r} must be {_NOUNS[kind]}")
    _check_limits(name, limits, value)
    return value


_NOUNS: Final[dict[Any, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def _checked_table(name: str, kind: Any, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{name} must be a table of name = value")
    if kind != _OPTIONS:
        return feature_pointers(name, value)
    for option, text in value.items():
        if not isinstance(text, (str, Secret)):
            raise SettingsError(f'{name}."{option}" must be a text: put it in quotes')
    return hide_secrets(value)


def _check_limits(name: str, limits: Mapping[str, Any], value: Any) -> None:
    low, high, choices = limits.get("low"), limits.get("high"), limits.get("choices")
    if choices and value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise SettingsError(f"{name} = {value!r} is not known: use one of {listed}")
    # `not >=` and not `<`: NaN must fail too
    if low is not None and not value >= low:
        raise SettingsError(
            f"{name} = {value!r} is below the limit {low}: raise it to {low} or more"
        )
    if high is not None and not value <= high:
        raise SettingsError(
            f"{name} = {value!r} is over the limit {high}: lower it to {high} or less"
        )
