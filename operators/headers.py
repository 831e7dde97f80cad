"""Reading a few headers out of a record's header blob, cheaply.

Producers send the same header names and lengths in each record, so a blob's layout is remembered
by its length: one unpack and one compare then give all values.  An unknown layout is read once in
full.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from operators.frames import FrameError, decode_headers

Values = tuple[bytes | None, ...]
_MAX_LAYOUTS: Final = 256  # producers with ever-changing lengths must not fill the memory
_NOTHING: Final = (None,)


class HeaderReader:
    """Reads the headers ``names``; of duplicates, the last wins."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._layouts: dict[int, _Layout] = {}

    def read(self, blob: bytes) -> Values:
        """One value a name, None for an absent or null header; raises FrameError."""
        layout = self._layouts.get(len(blob))
        if layout is not None:
            parts = layout.unpack(blob)
            if parts[::2] == layout.fixed:
                return layout.pick(parts + _NOTHING)
        return self._learn(blob)

    def _learn(self, blob: bytes) -> Values:
        headers = decode_headers(blob) if blob else []
        values = dict(headers)
        if len(self._layouts) >= _MAX_LAYOUTS:
            self._layouts.clear()
        self._layouts[len(blob)] = _Layout(blob, headers, self._names)
        return tuple(values.get(name) for name in self._names)


class _Layout:
    """Alternating fixed bytes (count, names, lengths) and values of a blob."""

    __slots__ = ("fixed", "pick", "unpack")

    def __init__(
        self, blob: bytes, headers: Sequence[tuple[str, bytes | None]], names: Sequence[str]
    ) -> None:
        sizes = []
        last: dict[str, int] = {}
        head = min(2, len(blob))
        for name, value in headers:
            sizes += [head + 2 + len(name.encode()) + 4, len(value or b"")]
            last[name] = len(sizes) - 1 if value is not None else -1
            head = 0
        sizes += [head] if head else []
        layout = struct.Struct("".join(f"{size}s" for size in sizes))
        if layout.size != len(blob):
            raise FrameError(f"header blob of {len(blob)} bytes describes {layout.size}")
        self.unpack: Callable[[bytes], tuple[bytes, ...]] = layout.unpack
        self.fixed = layout.unpack(blob)[::2]
        places = [last.get(name, -1) for name in names]
        self.pick: Callable[[tuple[bytes | None, ...]], Values] = (
            itemgetter(*places) if len(places) > 1 else lambda parts: (parts[places[0]],)
        )
