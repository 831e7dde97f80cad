"""Which reference a time of day is held against.

A feature with a daily course drifts every night from an all-day reference and never from the same
hour's.  A window may touch several slots: its reference is their mixture, weighted by the window's
rows in each.  A slot with too few reference rows stands back for the reference of all hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidemill.errors import SettingsError

SlotKind = Literal["none", "hour_of_day", "hour_of_week"]

_HOUR_MS: Final = 3_600_000
_MONDAY_MS: Final = 4 * 24 * _HOUR_MS  # the epoch was a Thursday
_COUNTS: Final[dict[SlotKind, int]] = {"none": 0, "hour_of_day": 24, "hour_of_week": 168}


@dataclass(frozen=True, slots=True)
class SlotPolicy:
    """``offset_ms`` is local time minus UTC; it is fixed, a change to summer time shifts the slots."""

    kind: SlotKind = "none"
    offset_ms: int = 0
    min_rows: int = 500
    """A slot with fewer reference rows isn't used."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(SlotKind):
            raise SettingsError(f"slots {self.kind!r} is none of {get_args(SlotKind)}")
        if abs(self.offset_ms) > 14 * _HOUR_MS:
            raise SettingsError(f"offset_ms {self.offset_ms} is more than 14 hours")

    @property
    def count(self) -> int:
        """Number of slots; 0 without seasons."""
        return _COUNTS[self.kind]

    def slots(self, times_ms: ArrayLike) -> NDArray[np.int64]:
        """Slot of each epoch time, int64; hour 0 is midnight, and of the week Monday's."""
        if not self.count:
            raise SettingsError("a reference without slots has none to ask for")
        local = np.asarray(times_ms, np.int64) + self.offset_ms - _MONDAY_MS
        return np.asarray(local // _HOUR_MS % self.count, np.int64)
