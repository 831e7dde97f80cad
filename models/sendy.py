"""Sendy bike deliveries in Nairobi: seconds from pickup to arrival, as known at pickup.

The file has days of the month, but neither months nor years: all days are laid on one month, and
that is the time we split by. Decides: what was known at pickup. Must not know: torch.
"""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt
from pathlib import Path

from models.dataset import Dataset, Event, Value, number, read_csv
from models.spec import FeatureSpec, OutputSpec

_MONTH_START_S = 1_546_290_000  # 2019-01-01 00:00 in Nairobi (UTC+3)
_DAY_S = 86_400
_EARTH_KM = 6371.0


def read_sendy(folder: Path) -> list[Event]:
    """Every order. Raises DataError."""
    riders = {row["Rider Id"]: row for row in read_csv(folder / "riders.csv.gz")}
    return [_event(row, riders) for row in read_csv(folder / "orders.csv.gz")]


def _event(row: dict[str, str], riders: dict[str, dict[str, str]]) -> Event:
    rider = riders.get(row["Rider Id"], {})
    placed_s, confirmed_s, pickup_s = (
        _time(row, s) for s in ("Placement", "Confirmation", "Pickup")
    )
    label = float(row["Time from Pickup to Arrival"])
    at = tuple(
        float(row[f"{end} {axis}"]) for end in ("Pickup", "Destination") for axis in ("Lat", "Long")
    )
    features: dict[str, Value] = {
        "distance_km": number(row["Distance (KM)"]),
        "air_km": _air_km(*at),
        "hour": (pickup_s - _MONTH_START_S) % _DAY_S / 3600,
        "dow": number(row["Pickup - Weekday (Mo = 1)"]),
        "platform": row["Platform Type"],
        "business": float(row["Personal or Business"] == "Business"),
        "pickup_lat": at[0],
        "pickup_lon": at[1],
        "dest_lat": at[2],
        "dest_lon": at[3],
        "temp_c": number(row["Temperature"]),
        "precip_mm": number(row["Precipitation in millimeters"]),
        "rider_orders": number(rider.get("No_Of_Orders", "")),
        "rider_days": number(rider.get("Age", "")),
        "rider_rating": number(rider.get("Average_Rating", "")),
        "confirm_s": float(confirmed_s - placed_s),
        "wait_s": float(pickup_s - placed_s),
    }
    return Event(
        order_id=row["Order No"],
        event_time_ms=pickup_s * 1000,
        key=row["Rider Id"],
        zone=f"{at[0]:.2f},{at[1]:.2f}",
        features=features,
        label=label,
        label_time_ms=int((pickup_s + label) * 1000),
    )


def _time(row: dict[str, str], stage: str) -> int:
    """Epoch s of a stage, e.g. day 9, "9:35:46 AM"."""
    clock, half = row[f"{stage} - Time"].split()
    hour, minute, second = (int(part) for part in clock.split(":"))
    hour = hour % 12 + (12 if half == "PM" else 0)
    day = int(row[f"{stage} - Day of Month"])
    return _MONTH_START_S + (day - 1) * _DAY_S + hour * 3600 + minute * 60 + second


def _air_km(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Great-circle distance, km."""
    north, east = radians(lat2 - lat1) / 2, radians(lon2 - lon1) / 2
    chord = sin(north) ** 2 + cos(radians(lat1)) * cos(radians(lat2)) * sin(east) ** 2
    return 2 * _EARTH_KM * asin(sqrt(chord))


SENDY = Dataset(
    name="sendy",
    folder="sendy_orders",
    files=("orders.csv.gz", "riders.csv.gz"),
    read=read_sendy,
    features=(
        FeatureSpec("distance_km", low=0, high=500, required=True, unit="km by road"),
        FeatureSpec("air_km", low=0, high=500, required=True, unit="km"),
        FeatureSpec("hour", low=0, high=24, required=True, unit="h, local"),
        FeatureSpec("dow", "int", 1, 7, required=True, unit="Monday = 1"),
        FeatureSpec("platform", "category", categories=("?",), unseen=True),
        FeatureSpec("business", "bool", 0, 1, default=1.0),
        FeatureSpec("pickup_lat", low=-90, high=90, required=True, unit="degrees"),
        FeatureSpec("pickup_lon", low=-180, high=180, required=True, unit="degrees"),
        FeatureSpec("dest_lat", low=-90, high=90, required=True, unit="degrees"),
        FeatureSpec("dest_lon", low=-180, high=180, required=True, unit="degrees"),
        FeatureSpec("temp_c", low=-30, high=60, default=23.0, unit="C"),
        FeatureSpec("precip_mm", low=0, high=500, default=0.0, unit="mm"),
        FeatureSpec("rider_orders", low=0, default=1500.0, unit="orders"),
        FeatureSpec("rider_days", low=0, default=980.0, unit="days"),
        FeatureSpec("rider_rating", low=0, high=20, default=13.5),
        FeatureSpec("confirm_s", default=120.0, unit="s"),
        FeatureSpec("wait_s", default=1500.0, unit="s"),
    ),
    output=OutputSpec("seconds", "s"),
    rule_features=(
        ("distance_km", (2.0, 4.0, 6.0, 8.0, 10.0, 13.0, 16.0, 20.0, 25.0)),
        ("hour", (9.0, 11.0, 13.0, 15.0, 17.0)),
    ),
    note="Its owner gives no licence, so it isn't in this repository: pass --data FOLDER.",
)
