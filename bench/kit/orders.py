"""Orders of the benches: encoded beforehand but for their ids, since the generator shares the cores."""

from __future__ import annotations

import json
import random
from functools import cache

from bench.kit.models import FEATURES

KEYS = tuple(str(number).encode() for number in range(500))
_SETS = 256
ID_DIGITS = 8


@cache
def _feature_sets() -> list[bytes]:
    chance = random.Random(1)
    return [
        b'","features":'
        + json.dumps({name: round(chance.uniform(-3, 3), 3) for name in FEATURES}).encode()
        + b"}"
        for _ in range(_SETS)
    ]


class Orders:
    """The orders of one run; ``run`` tells their ids from those of all other runs."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._task = run.encode() + b"-%0" + str(ID_DIGITS).encode() + b"d"
        self._tails = _feature_sets()

    def task(self, number: int) -> bytes:
        """The task id of order ``number``."""
        return self._task % number

    def value(self, task: bytes, number: int) -> bytes:
        """The event of order ``number``."""
        return b'{"order_id":"' + task + self._tails[number % _SETS]

    def key(self, number: int) -> bytes:
        """The record key of order ``number``: one of 500 entities."""
        return KEYS[number % len(KEYS)]
