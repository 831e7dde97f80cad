"""Reads settings from a file, the environment and overrides; a typo suggests the right key.

Each value is checked where it is read, so that the error can say where it came from.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tidemill._setting import Secret, Section, checked, field_types
from tidemill.errors import SettingsError

ENV_PREFIX: Final = "TIDEMILL_"
CONFIG_VARIABLE: Final = "TIDEMILL_CONFIG"
DEFAULT_FILE: Final = "tidemill.toml"

Sections = Mapping[str, type[Section]]
Values = dict[str, dict[str, Any]]


def read_sources(
    sections: Sections,
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any],
) -> Values:
    """Values by section and key, checked; later sources win."""
    values: Values = {}
    file = _find_file(path, environ)
    if file is not None:
        for name, entry in _read_toml(file).items():
            if not isinstance(entry, dict):
                raise SettingsError(f"{name!r} in {file} must be a [section] with keys in it")
            _section(sections, name, str(file))
            for key, value in entry.items():
                _store(sections, values, (name, key), value, str(file))
    for variable, text in environ.items():
        where = _split_variable(sections, variable)
        if where is not None:
            value = _from_text(sections, where, text, variable)
            _store(sections, values, where, value, variable)
    for dotted, value in overrides.items():
        name, dot, key = dotted.replace("__", ".", 1).partition(".")
        if not dot:
            raise SettingsError(f"override {dotted!r} must be named section.key")
        _store(sections, values, (name, key), value, "an override")
    return values


def _find_file(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = path or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if named is None:
        default = Path(DEFAULT_FILE)
        return default if default.is_file() else None
    return named


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"settings file {file} can't be read ({error.strerror}): check --config and "
            f"{CONFIG_VARIABLE}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {file} is not valid TOML: {error}") from error


def _split_variable(sections: Sections, variable: str) -> tuple[str, str] | None:
    """Section and key of an environment variable, or None if it isn't a setting of ours."""
    if not variable.startswith(ENV_PREFIX) or variable == CONFIG_VARIABLE:
        return None
    name, separator, key = variable[len(ENV_PREFIX) :].lower().partition("__")
    if separator:
        return name, key
    first, _, rest = name.partition("_")
    if first in sections and rest in _keys(sections[first]):
        right = f"{ENV_PREFIX}{first}__{rest}".upper()
        raise SettingsError(f"{variable} has one underscore too few: did you mean {right}?")
    return None


def _store(
    sections: Sections, values: Values, where: tuple[str, str], value: Any, source: str
) -> None:
    section = _section(sections, where[0], source)
    key, value = _resolve_secret_file(section, where[1], value, source)
    kinds = field_types(section)
    limits = {f.name: f.metadata for f in dataclasses.fields(section)}  # type: ignore[arg-type]
    if key not in limits:
        hint = _hint(key, _keys(section))
        raise SettingsError(f"unknown setting {section.section}.{key} in {source}{hint}")
    try:
        value = checked(f"{section.section}.{key}", kinds[key], limits[key], value)
    except SettingsError as error:
        raise SettingsError(f"{error} (from {source})") from None
    values.setdefault(section.section, {})[key] = value


def _section(sections: Sections, name: str, source: str) -> type[Section]:
    if name not in sections:
        raise SettingsError(f"unknown section {name!r} in {source}{_hint(name, sections)}")
    return sections[name]


def _resolve_secret_file(
    section: type[Section], key: str, value: Any, source: str
) -> tuple[str, Any]:
    """A secret `x` may be given as `x_file`: the path of a file that holds it."""
    secret = key.removesuffix("_file")
    if secret == key or field_types(section).get(secret) is not Secret:
        return key, value
    name = f"{section.section}.{key}"
    if not isinstance(value, str):
        raise SettingsError(f"{name} in {source} must be the path of a file")
    try:
        return secret, Secret(Path(value).read_text(encoding="utf-8").rstrip("\r\n"))
    except OSError as error:
        raise SettingsError(f"{name} = {value!r} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{name} = {value!r} is not UTF-8 text") from None


def _keys(section: type[Section]) -> list[str]:
    kinds = field_types(section)
    keys = [f.name for f in dataclasses.fields(section)]  # type: ignore[arg-type]
    return keys + [f"{key}_file" for key in keys if kinds[key] is Secret]


def _hint(name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else f": known are {', '.join(known)}"


def _from_text(sections: Sections, where: tuple[str, str], text: str, variable: str) -> Any:
    """The text of an environment variable in the type of its setting; errors come later."""
    section = sections.get(where[0])
    kind = field_types(section).get(where[1], str) if section else str
    if typing.get_origin(kind) is not None:
        return _json_table(text, variable)
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _json_table(text: str, variable: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise SettingsError(f'{variable} must be a JSON object, like {{"name": "value"}}') from None
