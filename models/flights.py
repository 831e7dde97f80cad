"""Flights from LaGuardia in 2013: how many minutes late will this one arrive?

Stands in for "when will this order be delivered", since the data may be given away (CC0).
Decides: what was known at the scheduled departure. Must not know: torch.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from models.dataset import Dataset, Event, Value, number, read_csv
from models.spec import FeatureSpec, OutputSpec

# New York in 2013: EDT between these, else EST. Written out: a machine may lack the zone files.
_EDT = (1_362_898_800, 1_383_458_400)
_TAXI_S = 25 * 60  # from wheels down to the gate, generous: nothing is used before it was known
_RECENT_ARRIVALS = 20
_WINDOW_S = 3600
_WAIT_LIMIT_S = 4 * 3600  # a flight later than that is taken as given up by those who watch

_WEATHER = ("temp", "humid", "wind_speed", "precip", "pressure", "visib")


@dataclass(frozen=True, slots=True)
class _Flight:
    at_s: int
    row: dict[str, str]
    left_s: float | None
    known_s: float | None


class _Airport:
    """What the airport knows of flights that left and arrived, as time goes on."""

    def __init__(self) -> None:
        self._leaving: list[tuple[float, int, float]] = []
        self._arriving: list[tuple[float, int, float]] = []
        self._waiting: deque[tuple[int, float]] = deque()
        self._left: deque[tuple[float, float]] = deque()
        self._arrived: deque[float] = deque(maxlen=_RECENT_ARRIVALS)

    def at(self, now_s: int) -> dict[str, Value]:
        """Congestion as known at `now_s`; nothing for a part that has no flight."""
        while self._leaving and self._leaving[0][0] <= now_s:
            left_s, _, delay = heapq.heappop(self._leaving)
            self._left.append((left_s, delay))
        while self._arriving and self._arriving[0][0] <= now_s:
            self._arrived.append(heapq.heappop(self._arriving)[2])
        while self._left and self._left[0][0] < now_s - _WINDOW_S:
            self._left.popleft()
        while self._waiting and self._waiting[0][0] < now_s - _WAIT_LIMIT_S:
            self._waiting.popleft()
        waits = [(now_s - at) / 60 for at, left_s in self._waiting if left_s > now_s]
        return {
            "recent_delay": _mean(self._arrived) if self._arrived else None,
            "recent_departure_delay": _mean([d for _, d in self._left]) if self._left else None,
            "waiting": float(len(waits)),
            "waiting_minutes": _mean(waits) if waits else 0.0,
        }

    def scheduled(self, flight: _Flight, serial: int) -> None:
        """A flight that will leave and arrive at its time; a cancelled one is off the board by now."""
        row = flight.row
        if flight.left_s is None:
            return
        self._waiting.append((flight.at_s, flight.left_s))
        heapq.heappush(self._leaving, (flight.left_s, serial, float(row["dep_delay"])))
        if flight.known_s is not None:
            heapq.heappush(self._arriving, (flight.known_s, serial, float(row["arr_delay"])))


def read_flights(folder: Path) -> list[Event]:
    """Every flight that arrived. Raises DataError."""
    flights = sorted(
        (_parse(row) for row in read_csv(folder / "flights.csv.gz")), key=lambda f: f.at_s
    )
    return list(_events(flights))


def _parse(row: dict[str, str]) -> _Flight:
    at_s = int(row["sched_dep_ts"])
    left_s = at_s + 60 * float(row["dep_delay"]) if row["dep_delay"] else None
    known_s = None
    if left_s is not None and row["arr_delay"] and row["air_time"]:
        known_s = left_s + 60 * float(row["air_time"]) + _TAXI_S
    return _Flight(at_s, row, left_s, known_s)


def _events(flights: Iterable[_Flight]) -> Iterable[Event]:
    airport = _Airport()
    for serial, flight in enumerate(flights):
        row, at_s = flight.row, flight.at_s
        congestion = airport.at(at_s)
        airport.scheduled(flight, serial)
        if flight.known_s is None:
            continue
        local = _local(at_s)
        features: dict[str, Value] = {
            "hour": local.hour + local.minute / 60,
            "dow": float(local.weekday()),
            "carrier": row["carrier"],
            "dest": row["dest"],
            "distance": number(row["distance"]),
            **{name: number(row[name]) for name in _WEATHER},
            **congestion,
        }
        yield Event(
            order_id=row["src_row"],
            event_time_ms=at_s * 1000,
            key=row["tailnum"] or row["flight"],
            zone=row["dest"],
            features=features,
            label=float(row["arr_delay"]),
            label_time_ms=int(flight.known_s * 1000),
        )


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)


def _local(at_s: int) -> datetime:
    offset_h = -4 if _EDT[0] <= at_s < _EDT[1] else -5
    return datetime.fromtimestamp(at_s, UTC) + timedelta(hours=offset_h)


FLIGHTS = Dataset(
    name="flights",
    folder="nycflights13_lga",
    files=("flights.csv.gz",),
    read=read_flights,
    features=(
        FeatureSpec("hour", low=0, high=24, required=True, unit="h, local"),
        FeatureSpec("dow", "int", 0, 6, required=True, unit="Monday = 0"),
        FeatureSpec("carrier", "category", categories=("?",), unseen=True),
        FeatureSpec("dest", "category", categories=("?",), unseen=True),
        FeatureSpec("distance", low=0, high=13_000, required=True, unit="miles"),
        FeatureSpec("temp", low=-80, high=140, default=57.0, unit="F"),
        FeatureSpec("humid", low=0, high=100, default=59.0, unit="%"),
        FeatureSpec("wind_speed", low=0, high=250, default=10.4, unit="mph"),
        FeatureSpec("precip", low=0, high=20, default=0.0, unit="in/h"),
        FeatureSpec("pressure", low=850, high=1100, default=1017.5, unit="mbar"),
        FeatureSpec("visib", low=0, high=100, default=10.0, unit="miles"),
        FeatureSpec("recent_delay", low=-120, high=2000, default=0.0, unit="min"),
        FeatureSpec("recent_departure_delay", low=-120, high=2000, default=0.0, unit="min"),
        FeatureSpec("waiting", low=0, high=1000, default=0.0, unit="flights"),
        FeatureSpec("waiting_minutes", low=0, high=240, default=0.0, unit="min"),
    ),
    output=OutputSpec("delay_minutes", "min"),
    rule_features=(
        ("recent_departure_delay", (0.0, 5.0, 10.0, 20.0, 40.0)),
        ("hour", (9.0, 12.0, 15.0, 18.0, 21.0)),
        ("visib", (1.0, 3.0, 9.0)),
    ),
    note="It is part of this repository (data/nycflights13_lga).",
)
