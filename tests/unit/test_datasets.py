"""Contract of the recorded data: an event tells only what was known at its time; later means later."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from models.catalogue import DATASETS, default_data
from models.dataset import DataError, Event, split_by_time
from models.flights import FLIGHTS, read_flights
from models.sendy import SENDY

START_S = 1_357_000_000
COLUMNS = [
    "src_row",
    "sched_dep_ts",
    "dep_delay",
    "arr_delay",
    "air_time",
    "carrier",
    "flight",
    "tailnum",
    "dest",
    "distance",
    "temp",
    "humid",
    "wind_speed",
    "precip",
    "pressure",
    "visib",
]


def _flight(row: int, minute: int, dep: str, arr: str, air: str = "60") -> list[str]:
    fixed = ["AA", "1", f"N{row}", "ORD", "733", "50", "60", "10", "0", "", "10"]
    return [str(row), str(START_S + 60 * minute), dep, arr, air, *fixed]


def _read(folder: Path, rows: Sequence[Sequence[str]]) -> list[Event]:
    with gzip.open(folder / "flights.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return read_flights(folder)


def test_a_flight_counts_only_once_it_has_left_or_arrived(tmp_path: Path) -> None:
    events = _read(
        tmp_path,
        [
            _flight(1, 0, "10", "30"),  # leaves at 10, known to have arrived at 10 + 60 + 25
            _flight(2, 5, "", ""),  # cancelled: never waits
            _flight(3, 9, "0", "0"),
            _flight(4, 11, "0", "0"),
            _flight(5, 95, "0", "0"),
        ],
    )
    assert [event.order_id for event in events] == ["1", "3", "4", "5"]
    seen = [
        [
            event.features[name]
            for name in ("waiting", "waiting_minutes", "recent_departure_delay", "recent_delay")
        ]
        for event in events
    ]
    assert seen == [
        [0, 0, None, None],
        [1, 9, None, None],
        [0, 0, 5, None],  # flights 1 (10 min late) and 3 (on time) have left
        [0, 0, None, pytest.approx(15)],  # nobody left in the last hour; 1 and 3 have arrived
    ]


def test_an_outcome_changes_no_event_before_it_is_known(tmp_path: Path) -> None:
    def features(dep: str, arr: str) -> list[dict[str, float | str | None]]:
        rows = [_flight(i, i, "3", "4") for i in range(20)]
        rows[5] = _flight(5, 5, dep, arr)
        return [event.features for event in _read(tmp_path, rows)]

    assert features("30", "99") == features("40", "-9")


def test_a_missing_value_is_left_out_of_the_event(tmp_path: Path) -> None:
    (event,) = _read(tmp_path, [_flight(1, 0, "10", "30")])
    body = event.to_json()
    assert isinstance(body["features"], dict)
    assert "pressure" not in body["features"]
    assert "label" not in body
    assert body["event_time_ms"] == START_S * 1000
    assert event.label == 30


def test_local_time_follows_the_clock_change(tmp_path: Path) -> None:
    rows = [_flight(1, 0, "0", "0"), _flight(2, 0, "0", "0")]
    rows[0][1], rows[1][1] = "1362898799", "1362898800"  # 2013-03-10, 1:59:59 EST, 3:00:00 EDT
    assert [event.features["hour"] for event in _read(tmp_path, rows)] == [
        pytest.approx(1 + 59 / 60),
        3,
    ]


def _event(at_ms: int, known_ms: int) -> Event:
    return Event(str(at_ms), at_ms, "", "", {}, 0.0, known_ms)


def test_the_split_is_by_time_and_uses_no_answer_that_came_later() -> None:
    events = [_event(at, at + 15) for at in range(0, 100, 10)]
    earlier, later = split_by_time(events, 0.5)
    assert [event.event_time_ms for event in earlier] == [0, 10, 20, 30]
    assert [event.event_time_ms for event in later] == [50, 60, 70, 80, 90]


def test_data_that_is_not_there_is_named_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no orders\.csv\.gz and riders\.csv\.gz.*--data FOLDER"):
        SENDY.load(tmp_path)


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "flights.csv.gz").write_bytes(gzip.compress(b"a,b\n")[:-4])
    with pytest.raises(DataError, match="can't be read"):
        FLIGHTS.load(tmp_path)


def test_the_hash_follows_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "flights.csv.gz").write_bytes(b"one")
    first = FLIGHTS.data_hash(tmp_path)
    (tmp_path / "flights.csv.gz").write_bytes(b"two")
    assert len(first) == 64
    assert FLIGHTS.data_hash(tmp_path) != first


def test_the_demos_data_is_part_of_the_repository(checkout: Path) -> None:
    assert default_data(DATASETS["flights"]) == checkout / "data"
    size = (checkout / "data" / "nycflights13_lga" / "flights.csv.gz").stat().st_size
    assert size < 2 * 1024 * 1024
