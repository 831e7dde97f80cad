"""What a check found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]
"""`note` costs speed or is worth knowing; `problem` keeps something from working."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor; ``remedy`` is empty when all is well."""

    check: str
    level: Level
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", found)


def note(check: str, found: str, remedy: str) -> Finding:
    """Works, but slower or less safely than it could."""
    return Finding(check, "note", found, remedy)


def problem(check: str, found: str, remedy: str) -> Finding:
    """Does not work."""
    return Finding(check, "problem", found, remedy)
