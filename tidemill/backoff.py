"""When to try a service again: exponential pauses with jitter, so that clients don't come at once.

Pure: the time and the source of chance are arguments.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

FIRST_MS: Final = 25
LONGEST_MS: Final = 2000  # an answer waits no longer than this after Redis is back


@dataclass(slots=True)
class BackOff:
    """Counts failures in a row; each doubles the pause, of which a random half is waited."""

    first_ms: int = FIRST_MS
    longest_ms: int = LONGEST_MS
    failures: int = 0
    not_before_ms: int = 0
    chance: random.Random = field(default_factory=random.Random, repr=False)

    def ready(self, now_ms: int) -> bool:
        """Whether the pause is over."""
        return now_ms >= self.not_before_ms

    def failed(self, now_ms: int) -> int:
        """Note a failure; returns the pause in ms."""
        # the exponent is bounded: an outage of days must not make a huge number
        pause = min(self.longest_ms, self.first_ms << min(self.failures, 20))
        self.failures += 1
        waited = pause - int(pause / 2 * self.chance.random())
        self.not_before_ms = now_ms + waited
        return waited

    def succeeded(self) -> None:
        """Forget the failures."""
        self.failures = 0
        self.not_before_ms = 0
