"""What all frames share: the error of bytes that are none, and the checks of their lengths.

See frames.py for the layouts.  Must not know: what is in a key, header or value.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidemill.errors import ContractError

NULL: Final = -1
"""Length of a null key or value, which is not the same as an empty one."""


class FrameError(ContractError):
    """Bytes are not the frame that they should be: the bridge and Python are of two releases."""


def frame_error(frame: str, expected: str, actual: str) -> FrameError:
    """The error of ``frame`` with what was expected, what came instead, and the remedy."""
    return FrameError(
        f"{frame}: expected {expected}, got {actual}; deploy the bridge jar and the Python code"
        " of one release together and restart the TaskManagers"
    )


def read_head(
    buf: bytes, head: Struct, magic: bytes, row_bytes: int
) -> tuple[int, tuple[int, ...]]:
    """Number of rows and the rest of the head, once the magic and the sizes fit."""
    name = f"frame {magic.decode()}"
    if len(buf) < head.size:
        raise frame_error(name, f"{head.size} bytes or more", f"{len(buf)} bytes")
    found, n, total, *rest = head.unpack_from(buf)
    if found != magic:
        raise frame_error(name, f"magic {magic!r}", f"{found!r} in {len(buf)} bytes")
    if n < 0 or total != len(buf) or padded(head.size + row_bytes * n) > total:
        raise frame_error(name, f"{total} bytes that hold {n} rows", f"{len(buf)} bytes")
    return n, tuple(rest)


def check_lengths(lengths: NDArray[np.int32], n: int, start: int, total: int, magic: bytes) -> None:
    """``lengths`` are the key, header and value columns; their rows must end at ``total``."""
    name = f"frame {magic.decode()}"
    end = start
    if n:
        lowest, lowest_header = int(lengths.min()), int(lengths[n : 2 * n].min())
        if lowest < NULL or lowest_header < 0:
            raise frame_error(
                name, "lengths of -1 or more, of headers 0", f"{lowest} and {lowest_header}"
            )
        end += int(np.maximum(lengths, 0).sum(dtype=np.int64))
    if end != total:
        raise frame_error(name, f"rows that end at byte {total}", str(end))


def cut(
    data: bytes, at: int, key_len: int, hdr_len: int, val_len: int
) -> tuple[bytes | None, bytes, bytes | None, int]:
    """Key, headers and value of the row at ``at``, and where the next row begins."""
    key_end = at + max(key_len, 0)
    headers_end = key_end + hdr_len
    end = headers_end + max(val_len, 0)
    key = data[at:key_end] if key_len >= 0 else None
    value = data[headers_end:end] if val_len >= 0 else None
    return key, data[key_end:headers_end], value, end


def joined(columns: bytes, rows: bytes) -> bytes:
    """A frame of its head and columns, and the bytes of its rows."""
    return b"".join((columns, bytes(padded(len(columns)) - len(columns)), rows))


def padded(size: int) -> int:
    """The next multiple of 8: where rows begin behind ``size`` bytes of columns."""
    return (size + 7) & ~7


def length_of(blob: bytes | None) -> int:
    """Length field of a key or value."""
    return NULL if blob is None else len(blob)
