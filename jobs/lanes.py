"""Keys of the lanes, chosen so that every subtask owns the same number of them.

Flink hashes a key to one of `max_parallelism` key groups and gives each subtask a range of groups.
Lanes are few, so keys 0, 1, 2, ... would leave subtasks without work; these labels fall in the
middle of equal slices of the groups, for every parallelism that divides the number of lanes.
"""

from __future__ import annotations

from collections.abc import Callable

_MOST_TRIES = 1_000_000


def lane_labels(
    lanes: int, max_parallelism: int, key_group: Callable[[int], int]
) -> tuple[int, ...]:
    """One label a lane; ``key_group(label)`` is Flink's key group of a label.

    Raises ValueError if there are more lanes than key groups.
    """
    if not 1 <= lanes <= max_parallelism:
        raise ValueError(
            f"job.lanes is {lanes}; it must be from 1 to job.max_parallelism ({max_parallelism})"
        )
    wanted = {(2 * lane + 1) * max_parallelism // (2 * lanes): lane for lane in range(lanes)}
    found: dict[int, int] = {}
    for label in range(_MOST_TRIES):
        lane = wanted.pop(key_group(label), None)
        if lane is not None:
            found[lane] = label
        if not wanted:
            return tuple(found[lane] for lane in range(lanes))
    raise ValueError(f"no key found for the key groups {sorted(wanted)}; use fewer lanes")


def check_lanes(lanes: int, parallelism: int) -> None:
    """Raises ValueError unless every subtask gets the same number of lanes."""
    if lanes % parallelism:
        raise ValueError(
            f"job.lanes is {lanes} and job.parallelism {parallelism}: some subtasks would have "
            f"more lanes than others; set job.lanes to a multiple of job.parallelism"
        )
