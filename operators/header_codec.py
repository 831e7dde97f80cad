"""A record's headers as one blob; order and duplicates are kept.

count u16, then for each: name length u16, name utf-8, value length i32 (-1 is null), value
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from operators.frame_layout import NULL, FrameError, frame_error, length_of

EMPTY_HEADERS: Final = b"\0\0"
DROPPED_HEADERS: Final = "x-bridge.dropped-headers"
"""Stands in for headers that the bridge can't carry (too many, or a name too long)."""
MAX_HEADERS: Final = 0xFFFF
MAX_NAME_BYTES: Final = 0xFFFF

_U16: Final = Struct("<H")
_I32: Final = Struct("<i")


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The blob of a record's headers in their order, duplicates kept.  Raises FrameError."""
    return append_headers(
        EMPTY_HEADERS, b"".join(_encode_header(*header) for header in headers), len(headers)
    )


def append_headers(blob: bytes, extra_encoded: bytes, extra_count: int) -> bytes:
    """``blob`` with more headers at its end: ``encode_headers(extra)[2:]`` and their number.

    So those that all records of a frame get are encoded once.  Raises FrameError.
    """
    if len(blob) < _U16.size:
        raise _headers_error(blob, "2 bytes or more")
    count = _U16.unpack_from(blob)[0] + extra_count
    if count > MAX_HEADERS:
        raise _headers_error(blob, f"at most {MAX_HEADERS} headers, not {count}")
    return b"".join((_U16.pack(count), blob[_U16.size :], extra_encoded))


def decode_headers(blob: bytes) -> list[tuple[str, bytes | None]]:
    """Names and values in their order, duplicates kept.  Raises FrameError."""
    if blob == EMPTY_HEADERS:
        return []
    size = len(blob)
    if size < _U16.size:
        raise _headers_error(blob, "2 bytes or more")
    headers: list[tuple[str, bytes | None]] = []
    at = _U16.size
    for _ in range(_U16.unpack_from(blob)[0]):
        if at + _U16.size > size:
            raise _headers_error(blob, "a name length", at)
        end = at + _U16.size + _U16.unpack_from(blob, at)[0]
        if end + _I32.size > size:
            raise _headers_error(blob, "a name and a value length", at)
        name, length = blob[at + _U16.size : end], _I32.unpack_from(blob, end)[0]
        at = end + _I32.size + max(length, 0)
        if length < NULL or at > size:
            raise _headers_error(blob, f"a value length within the blob, not {length}", end)
        headers.append((_name(name), None if length < 0 else blob[end + _I32.size : at]))
    if at != size:
        raise _headers_error(blob, "no byte more", at)
    return headers


def _encode_header(name: str, value: bytes | None) -> bytes:
    raw = name.encode()
    if len(raw) > MAX_NAME_BYTES:
        raise frame_error("header name", f"at most {MAX_NAME_BYTES} bytes", f"{len(raw)} bytes")
    return b"".join((_U16.pack(len(raw)), raw, _I32.pack(length_of(value)), value or b""))


def _name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise frame_error("header name", "utf-8", repr(raw[:80])) from error


def _headers_error(blob: bytes, expected: str, at: int = 0) -> FrameError:
    return frame_error(f"headers of {len(blob)} bytes", expected, f"byte {at}")
