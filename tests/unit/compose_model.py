"""What a compose file may hold, as far as ours goes: a strict reader for its test.

Written after the Compose Specification: keys of services, their types and their short and long
forms. A key that is not listed is an error, so that a typo can't pass as an extension.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

_SIZE = re.compile(r"\d+(\.\d+)?[bkmg]b?", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(\.\d+)?(us|ms|s|m|h))+")
_CPUSET = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_PORT = re.compile(r"(\d+\.\d+\.\d+\.\d+:)?(\d+:)?\d+(/(tcp|udp))?")
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def interpolate(value: Any) -> Any:
    """Replace `${NAME:-default}` by its default, in all texts."""
    if isinstance(value, str):
        text = _VARIABLE.sub(lambda found: found.group(2), value)
        assert "$" not in text.replace("$$", ""), f"{value!r} needs a variable without a default"
        return text
    if isinstance(value, list):
        return [interpolate(entry) for entry in value]
    if isinstance(value, dict):
        return {key: interpolate(entry) for key, entry in value.items()}
    return value


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(_text(entry) for entry in value)


def _matches(pattern: re.Pattern[str]) -> Check:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _one_of(*values: str) -> Check:
    return lambda value: value in values


def _mapping(keys: Check, values: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(keys(k) and values(v) for k, v in value.items())
    )


def _record(fields: Mapping[str, Check], required: frozenset[str] = frozenset()) -> Check:
    def check(value: Any) -> bool:
        return isinstance(value, dict) and not problems("", value, fields, required)

    return check


_CONDITION = _record(
    {"condition": _one_of("service_started", "service_healthy", "service_completed_successfully")},
    frozenset({"condition"}),
)
_HEALTH_CHECK = _record(
    {
        "test": lambda v: _texts(v) and v[0] in ("CMD", "CMD-SHELL") and len(v) > 1,
        "interval": _matches(_DURATION),
        "timeout": _matches(_DURATION),
        "start_period": _matches(_DURATION),
        "retries": lambda v: isinstance(v, int) and v > 0,
    },
    frozenset({"test", "interval", "timeout", "retries"}),
)
SERVICE: Mapping[str, Check] = {
    "image": _text,
    "build": _record({"context": _text, "dockerfile": _text}, frozenset({"context"})),
    "command": _texts,
    "user": _text,
    "init": lambda v: isinstance(v, bool),
    "restart": _one_of("no", "always", "on-failure", "unless-stopped"),
    # numbers and booleans are read differently by different engines: texts only
    "environment": _mapping(_matches(_NAME), _text),
    "ports": lambda v: isinstance(v, list) and all(_matches(_PORT)(entry) for entry in v),
    "volumes": _texts,
    "secrets": _texts,
    "depends_on": _mapping(_matches(_NAME), _CONDITION),
    "healthcheck": _HEALTH_CHECK,
    "cpuset": _matches(_CPUSET),
    "mem_limit": _matches(_SIZE),
    "shm_size": _matches(_SIZE),
    "stop_grace_period": _matches(_DURATION),
}
FILE: Mapping[str, Check] = {
    "name": _matches(re.compile(r"[a-z0-9][a-z0-9_-]*")),
    "services": lambda v: isinstance(v, dict) and bool(v),
    "volumes": _mapping(_matches(_NAME), lambda v: v is None),
    "secrets": _mapping(_matches(_NAME), _record({"file": _text}, frozenset({"file"}))),
}


def problems(
    where: str,
    value: Mapping[str, Any],
    fields: Mapping[str, Check],
    required: frozenset[str] = frozenset(),
) -> list[str]:
    """Unknown keys, wrong values and missing keys, each as a line."""
    found = [f"{where}: {key} is missing" for key in sorted(required - value.keys())]
    for key, entry in value.items():
        if key.startswith("x-"):
            continue
        if key not in fields:
            found.append(f"{where}: unknown key {key}")
        elif not fields[key](entry):
            found.append(f"{where}: {key} = {entry!r}")
    return found


def compose_problems(document: Mapping[str, Any]) -> list[str]:
    """Everything wrong with a whole file."""
    found = problems("file", document, FILE, frozenset({"services"}))
    for name, service in document["services"].items():
        found += problems(f"services.{name}", service, SERVICE, frozenset({"image"}))
    return found
