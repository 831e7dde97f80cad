"""Contract: a job begins where its group was, and never jumps over a gap on its own."""

from __future__ import annotations

import pytest

from jobs.start_offsets import Partition, choose_offset
from tidemill.errors import SettingsError


@pytest.mark.parametrize(
    ("committed", "start", "offset"),
    [
        (None, "committed", 10),
        (10, "committed", 10),
        (25, "committed", 25),
        (40, "committed", 40),
        (25, "earliest", 10),
        (25, "latest", 40),
        (5, "earliest", 10),
        (99, "latest", 40),
    ],
)
def test_it_begins_at(committed: int | None, start: str, offset: int) -> None:
    assert choose_offset(Partition(0, 10, 40, committed), start) == offset


@pytest.mark.parametrize(("committed", "gap"), [(3, "7 before"), (45, "5 behind")])
def test_a_gap_stops_it_and_says_how_large_it_is(committed: int, gap: str) -> None:
    with pytest.raises(SettingsError, match=f"partition 2: .* is {gap} .*job.start"):
        choose_offset(Partition(2, 10, 40, committed), "committed")
