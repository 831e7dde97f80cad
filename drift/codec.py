"""One container for what drift keeps: JSON about it, arrays beside it, a hash over both.

Little endian: 4s magic "TMD1", u32 bytes of the JSON, JSON {kind, version, meta, arrays}, the
arrays' bytes in turn, sha256 of all before.  The same content gives the same bytes, so the hash
names it.  Nothing is pickled: reading foreign bytes can fail, not run code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from tidemill.errors import ContractError

_HEAD: Final = Struct("<4sI")
_MAGIC: Final = b"TMD1"
_HASH_BYTES: Final = 32
_DTYPES: Final = {"<f4", "<f8", "<i8", "<i4", "<u4", "<u2", "|u1"}


@dataclass(frozen=True, slots=True)
class Content:
    """What a container holds; ``digest`` is the hash it was stored with (hex)."""

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    digest: str


def encode(kind: str, version: int, meta: Mapping[str, Any], **arrays: NDArray[Any]) -> bytes:
    """The bytes of a container."""
    plain = {name: _little(array) for name, array in arrays.items()}
    about = [[name, array.dtype.str, list(array.shape)] for name, array in plain.items()]
    head = orjson.dumps(
        {"kind": kind, "version": version, "meta": meta, "arrays": about},
        option=orjson.OPT_SORT_KEYS,
    )
    parts = [_HEAD.pack(_MAGIC, len(head)), head, *(array.tobytes() for array in plain.values())]
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def decode(kind: str, version: int, data: bytes) -> Content:
    """Read a container back; raises ContractError on foreign, damaged or other-version bytes."""
    if len(data) < _HEAD.size + _HASH_BYTES or data[:4] != _MAGIC:
        raise ContractError(f"expected magic {_MAGIC!r}, got {data[:4]!r} in {len(data)} bytes")
    body, stored = data[:-_HASH_BYTES], data[-_HASH_BYTES:]
    if hashlib.sha256(body).digest() != stored:
        raise ContractError(f"the {kind} is damaged: its hash is not the one it was stored with")
    _, length = _HEAD.unpack_from(body)
    head = orjson.loads(body[_HEAD.size : _HEAD.size + length])
    if head["kind"] != kind or head["version"] != version:
        raise ContractError(
            f"this is a {head['kind']} of version {head['version']}, expected a {kind} of version"
            f" {version}: use the release that wrote it, or build it again"
        )
    arrays, at = {}, _HEAD.size + length
    for name, dtype, shape in head["arrays"]:
        if dtype not in _DTYPES:
            raise ContractError(f"array {name} of the {kind} has dtype {dtype!r}")
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype, count, at).reshape(shape)
        at += arrays[name].nbytes
    if at != len(body):
        raise ContractError(f"{len(body) - at} bytes too many in the {kind}")
    return Content(head["meta"], arrays, stored.hex())


def digest(data: bytes) -> str:
    """The hash that ends a container, as hex."""
    return data[-_HASH_BYTES:].hex()


def narrow(counts: NDArray[np.int64]) -> NDArray[Any]:
    """The same counts (>= 0) in the smallest dtype that holds them, for state and wire."""
    highest = int(counts.max(initial=0))
    for dtype in ("<u2", "<u4"):
        if highest <= np.iinfo(dtype).max:
            return counts.astype(dtype)
    return counts.astype("<i8")


def _little(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
