"""Packing the features of many events, fast: lookups a row, checks a frame.

``RowReader.read`` takes the raw numbers of one event and proves that no key was there twice;
``RowReader.finish`` scales, checks ranges and makes the float32 block of the whole frame.  Both only
say *that* a row is not plain; ``EventMapping.row`` says why, and is right where the two differ.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import getitem, itemgetter
from typing import Any, Final

import numpy as np

from operators.mapping import EventMapping, FieldMap, Path, resolve
from operators.schema import FLOAT32_OVERFLOW, INT_EXACT
from operators.strict_json import MAX_DEPTH, check_unique_keys

NOT_PLAIN: Final = (KeyError, TypeError, ValueError, OverflowError, struct.error)
"""What ``read`` raises for an event that is not plain (strict_json's RecordError beside it)."""

_LARGEST: Final = float(np.nextafter(FLOAT32_OVERFLOW, 0.0))
Getter = Callable[[Any], tuple[Any, ...]]


class _Codes(dict[str | None, float]):
    """Category -> index; ``unseen``, if given, stands for every other text."""

    def __init__(self, field: FieldMap) -> None:
        categories = field.feature.categories
        super().__init__((name, float(i)) for i, name in enumerate(categories))
        if field.missing is not None:
            self[None] = field.missing
        self.unseen = float(len(categories)) if field.feature.unseen else None

    def __missing__(self, key: object) -> float:
        if self.unseen is None or type(key) is not str:
            raise KeyError(key)
        return self.unseen


@dataclass(slots=True)
class _Group:
    """Features that lie in one object of the event."""

    path: Path
    numbers: list[FieldMap] = field(default_factory=list)
    flags: list[FieldMap] = field(default_factory=list)
    texts: list[FieldMap] = field(default_factory=list)

    def fields(self) -> list[FieldMap]:
        """In the order of ``reader``'s numbers."""
        return self.numbers + self.flags + self.texts

    def defaults(self) -> dict[str, float | bool | None]:
        """Raw values that stand for absent ones.  Scaled fields have none: their rows go slow."""
        found: dict[str, float | bool | None] = {
            f.path[-1]: f.missing for f in self.numbers if f.missing is not None and f.scale == 1.0
        }
        found.update((f.path[-1], bool(f.missing)) for f in self.flags if f.missing is not None)
        found.update((f.path[-1], None) for f in self.texts if f.missing is not None)
        return found

    def reader(self) -> Getter:
        """A function from this object to its numbers; raises NOT_PLAIN."""
        numbers, flags, texts = (_picker(fs) for fs in (self.numbers, self.flags, self.texts))
        codes = [_Codes(f) for f in self.texts]
        defaults = self.defaults()

        def plain(node: Any) -> tuple[Any, ...]:
            if defaults:
                node = defaults | node
            values = numbers(node)
            if bool in map(type, values):
                raise TypeError
            return (*values, *map(getitem, codes, texts(node)))

        def with_flags(node: Any) -> tuple[Any, ...]:
            if defaults:
                node = defaults | node
            values, bits = numbers(node), flags(node)
            if bool in map(type, values) or set(map(type, bits)) != {bool}:
                raise TypeError
            return (*values, *bits, *map(getitem, codes, texts(node)))

        return with_flags if self.flags else plain


def _picker(fields: Sequence[FieldMap]) -> Getter:
    keys = [f.path[-1] for f in fields]
    if not keys:
        return lambda _node: ()
    if len(keys) == 1:
        only = keys[0]
        return lambda node: (node[only],)
    return itemgetter(*keys)


def _groups(fields: Sequence[FieldMap]) -> list[_Group]:
    groups: dict[Path, _Group] = {}
    for f in fields:
        group = groups.setdefault(f.path[:-1], _Group(f.path[:-1]))
        kinds = {"category": group.texts, "bool": group.flags}
        kinds.get(f.feature.dtype, group.numbers).append(f)
    return list(groups.values())


class RowReader:
    """Compiled once a job; ``read`` once a row, ``finish`` once a frame."""

    def __init__(self, mapping: EventMapping) -> None:
        groups = _groups(mapping.fields)
        order = [f for group in groups for f in group.fields()]
        columns = [mapping.fields.index(f) for f in order]
        self._width = len(order)
        self._scale, self._low, self._high = (
            np.array(column) for column in zip(*map(_limits, order), strict=True)
        )
        self._scaled = bool((self._scale != 1.0).any())
        self._whole = [i for i, f in enumerate(order) if f.feature.dtype == "int"]
        self._columns = None if columns == sorted(columns) else np.argsort(columns)
        self.zeros = bytes(8 * self._width)
        texts = dict.fromkeys((*mapping.id_paths, mapping.time_path or ()))  # each counts once
        self.read = _compile(groups, struct.Struct(f"<{self._width}d").pack, list(texts))

    def finish(self, rows: Sequence[bytes]) -> tuple[bytes, list[int]]:
        """The float32 block of ``read``'s rows, and the indices of rows that break a limit."""
        block = np.frombuffer(b"".join(rows), "<f8").reshape(len(rows), self._width)
        if self._scaled:
            block = block * self._scale
        good = (block >= self._low) & (block <= self._high)
        for column in self._whole:
            values = block[:, column]
            good[:, column] &= values == np.rint(values)
        bad = [] if good.all() else np.flatnonzero(~good.all(axis=1)).tolist()
        if self._columns is not None:
            block = block[:, self._columns]
        if bad:  # a value over float32's range would warn in the cast
            block = np.where(good if self._columns is None else good[:, self._columns], block, 0.0)
        return block.astype("<f4").tobytes(), bad


def _limits(f: FieldMap) -> tuple[float, float, float]:
    feature = f.feature
    if feature.dtype in ("category", "bool"):
        return 1.0, -np.inf, np.inf
    most = float(INT_EXACT) if feature.dtype == "int" else _LARGEST
    low = -most if feature.low is None else max(feature.low, -most)
    high = most if feature.high is None else min(feature.high, most)
    return f.scale, low, high


def _compile(
    groups: Sequence[_Group], pack: Callable[..., bytes], texts: Sequence[Path]
) -> Callable[[dict[str, Any], bytes], bytes]:
    if len(groups) == 1 and len(groups[0].path) == 1:  # the default mapping: all in /features
        return _one_object(groups[0].path[0], groups[0].reader(), pack, texts)
    steps = [(group.path, group.reader()) for group in groups]

    def read(doc: dict[str, Any], raw: bytes) -> bytes:
        pairs = len(doc)
        values: list[Any] = []
        for path, numbers in steps:
            node: Any = doc
            for key in path:
                node = node[key]
            pairs += len(node) if path else 0
            values += numbers(node)
        if raw.count(b":") != pairs:
            _check_keys(doc, raw, pairs, texts)
        return pack(*values)

    return read


def _one_object(
    key: str, numbers: Getter, pack: Callable[..., bytes], texts: Sequence[Path]
) -> Callable[[dict[str, Any], bytes], bytes]:
    def read(doc: dict[str, Any], raw: bytes) -> bytes:
        node = doc[key]
        row = pack(*numbers(node))
        pairs = len(doc) + len(node)
        if raw.count(b":") != pairs:
            _check_keys(doc, raw, pairs, texts)
        return row

    return read


def _check_keys(doc: dict[str, Any], raw: bytes, pairs: int, texts: Sequence[Path]) -> None:
    """Prove that no key was lost although ``raw`` has more colons than the ``pairs`` seen.

    Ids and times may hold colons, so ``texts`` are tried before the whole event is walked.
    """
    for path in texts:
        text = resolve(doc, path)
        if type(text) is str:
            pairs += text.count(":")
    if raw.count(b":") == pairs and b"\\" not in raw:
        return
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        raise ValueError
    check_unique_keys(raw, doc)
