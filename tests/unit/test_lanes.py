"""Contract: lanes spread evenly over subtasks, now and after rescaling."""

from __future__ import annotations

from collections import Counter
from zlib import crc32

import pytest

from jobs.lanes import check_lanes, lane_labels


def _group(label: int) -> int:
    return crc32(b"%d" % label) % 128


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 32])
def test_every_subtask_owns_as_many_lanes_at_each_parallelism(lanes: int) -> None:
    labels = lane_labels(lanes, 128, _group)
    assert len(set(labels)) == lanes
    for parallelism in (p for p in range(1, lanes + 1) if lanes % p == 0):
        owners = Counter(_group(label) * parallelism // 128 for label in labels)
        assert set(owners.values()) == {lanes // parallelism}


def test_more_lanes_than_key_groups_are_refused() -> None:
    with pytest.raises(ValueError, match=r"job\.lanes"):
        lane_labels(129, 128, _group)


def test_an_uneven_share_is_refused_with_the_remedy() -> None:
    check_lanes(4, 2)
    with pytest.raises(ValueError, match=r"multiple of job\.parallelism"):
        check_lanes(4, 3)
