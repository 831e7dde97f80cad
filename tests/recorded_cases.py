"""Reads recorded cases: messy records that others met, with a name and a group each."""

from __future__ import annotations

import ast
import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RECORDS = ("record", "record_gen")


@dataclass(frozen=True)
class CaseRecord:
    """One record of a case, as its producer sent it."""

    value: bytes | None
    key: bytes | None
    ts_ms: int | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class StreamCase:
    """A named case with the records it is about."""

    name: str
    group: str
    records: tuple[CaseRecord, ...]


def load_cases(path: Path) -> list[StreamCase]:
    """The cases of one file that are made of records."""
    entries = json.loads(path.read_text("utf-8"))
    found = []
    for entry in entries if isinstance(entries, list) else []:
        source = entry.get("input") or {}
        records = source.get("records", [source])
        if all(record.get("kind") in _RECORDS for record in records):
            made = tuple(_record(record) for record in records)
            found.append(StreamCase(entry["name"], entry["group"], made))
    return found


def _record(data: dict[str, Any]) -> CaseRecord:
    if data["kind"] == "record_gen":
        return CaseRecord(_bytes_of(ast.parse(data["expr"], mode="eval").body), b"k", None, ())
    headers = tuple((name, _decoded(value)) for name, value in data["headers"])
    return CaseRecord(
        _decoded(data["value_b64"]), _decoded(data["key_b64"]), data["ts_ms"], headers
    )


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _bytes_of(node: ast.expr) -> Any:
    """Value of an expression of bytes and integers with + and *: the only ones that cases need."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (bytes, int)):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _bytes_of(node.left), _bytes_of(node.right)
        return left + right if isinstance(node.op, ast.Add) else left * right
    raise ValueError(f"a case may add and multiply bytes and integers, not {ast.dump(node)}")
