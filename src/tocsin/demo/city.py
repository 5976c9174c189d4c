"""The demo's city: its places, its kinds of emergency, and the statements that declare it.

The seven repetitive channels are those of BAD, Table III, with their periods. Pure:
knows no clock, no random source and no service; `trace` plays what happens here.
"""

from __future__ import annotations

import math

from msgspec import Struct

from tocsin.model import Arguments

TYPES = (
    "flood",
    "fire",
    "storm",
    "tornado",
    "shooting",
    "earthquake",
    "gas leak",
    "power cut",
    "road crash",
    "landslide",
    "heat wave",
    "chemical spill",
)

NEAR_PLACE_KM = 2.0  # what the demo's subscribers ask for as :km
NEAR_USER_KM = 1.5
SHELTER_KM = 1.5
SHORTEST_PERIOD_S = 1

_CENTRE_LAT, _CENTRE_LON = 33.68, -117.83
_KM_PER_DEGREE = 111.2
_STREETS = ("Harbour", "Mill", "Orchard", "Station", "Market", "Garden", "Castle", "River")
_QUARTERS = ("North", "Bridge", "Hill", "Square", "Cross", "Field", "Gate", "South")
_SPACING_KM = 2.0


class Place(Struct, frozen=True):
    name: str
    lat: float
    lon: float


class PeriodicChannel(Struct, frozen=True):
    """One line of BAD, Table III."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    query: str
    period_s: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.parameters)

    def statement(self, speed: float) -> str:
        parameters = ", ".join(f"{name} {kind}" for name, kind in self.parameters)
        seconds = period_at(self.period_s, speed)
        return (
            f"CREATE REPETITIVE CHANNEL {self.name}({parameters})\n"
            f"EVERY INTERVAL {seconds} {'SECOND' if seconds == 1 else 'SECONDS'} AS\n{self.query}"
        )


def offset(lat: float, lon: float, north_km: float, east_km: float) -> tuple[float, float]:
    """The point so many kilometres away; exact enough inside one city. Six digits are 10 cm."""
    moved_lat = lat + north_km / _KM_PER_DEGREE
    moved_lon = lon + east_km / (_KM_PER_DEGREE * math.cos(math.radians(lat)))
    return round(moved_lat, 6), round(moved_lon, 6)


def apart(lat: float, lon: float, to_lat: float, to_lon: float) -> tuple[float, float]:
    """How many kilometres north and east the second point is: the inverse of `offset`."""
    east_km = (to_lon - lon) * _KM_PER_DEGREE * math.cos(math.radians(lat))
    return (to_lat - lat) * _KM_PER_DEGREE, east_km


def _grid() -> tuple[Place, ...]:
    half = (len(_STREETS) - 1) / 2
    return tuple(
        Place(
            f"{street} {quarter}",
            *offset(
                _CENTRE_LAT, _CENTRE_LON, (half - row) * _SPACING_KM, (column - half) * _SPACING_KM
            ),
        )
        for row, quarter in enumerate(_QUARTERS)
        for column, street in enumerate(_STREETS)
    )


PLACES = _grid()
"""Sixty-four named places, two kilometres apart: the finite set that people ask about."""

DATASETS = {
    "emergencies": """CREATE DATASET emergencies (
  report_id STRING, type STRING, severity INT, place STRING, lat DOUBLE, lon DOUBLE,
  message STRING, reported_at TIMESTAMP, photo ATTACHMENT)""",
    "shelters": """CREATE DATASET shelters (
  shelter_id STRING, name STRING, lat DOUBLE, lon DOUBLE, free_beds INT,
  message STRING, reported_at TIMESTAMP)
PRIMARY KEY (shelter_id)""",
    "locations": """CREATE DATASET locations (
  user_id STRING, lat DOUBLE, lon DOUBLE, reported_at TIMESTAMP)
PRIMARY KEY (user_id)""",
}

_REPORT = (
    "e.report_id, e.type, e.severity, e.place, e.lat, e.lon, e.message, e.reported_at, e.photo"
)
_SHELTER = "s.shelter_id, s.name AS shelter, s.free_beds"
_AT_PLACE = "near(e.lat, e.lon, :lat, :lon, :km)"
_SHELTERS = f"JOIN shelters s ON near(s.lat, s.lon, e.lat, e.lon, {SHELTER_KM})"
_USERS = f"JOIN locations u ON near(e.lat, e.lon, u.lat, u.lon, {NEAR_USER_KM})"

_TYPE = (("type", "STRING"),)
_PLACE = (("lat", "DOUBLE"), ("lon", "DOUBLE"), ("km", "DOUBLE"))
_USER = (("user", "STRING"),)

CHANNELS = (
    PeriodicChannel(
        "emergencies_of_type",
        _TYPE,
        f"SELECT {_REPORT}\nFROM NEW emergencies e\nWHERE e.type = :type",
        10,
    ),
    PeriodicChannel(
        "emergencies_near_place",
        _PLACE,
        f"SELECT {_REPORT}\nFROM NEW emergencies e\nWHERE {_AT_PLACE}",
        20,
    ),
    PeriodicChannel(
        "emergencies_of_type_near_place",
        _TYPE + _PLACE,
        f"SELECT {_REPORT}\nFROM NEW emergencies e\nWHERE e.type = :type AND {_AT_PLACE}",
        30,
    ),
    PeriodicChannel(
        "shelters_of_type_near_place",
        _TYPE + _PLACE,
        f"SELECT {_REPORT}, {_SHELTER}\nFROM NEW emergencies e\n{_SHELTERS}\n"
        f"WHERE e.type = :type AND {_AT_PLACE}",
        60,
    ),
    PeriodicChannel(
        "emergencies_near_user",
        _USER,
        f"SELECT {_REPORT}\nFROM NEW emergencies e\n{_USERS}\nWHERE u.user_id = :user",
        10,
    ),
    PeriodicChannel(
        "emergencies_of_type_near_user",
        _TYPE + _USER,
        f"SELECT {_REPORT}\nFROM NEW emergencies e\n{_USERS}\n"
        "WHERE e.type = :type AND u.user_id = :user",
        10,
    ),
    PeriodicChannel(
        "shelters_of_type_near_user",
        _TYPE + _USER,
        f"SELECT {_REPORT}, {_SHELTER}\nFROM NEW emergencies e\n{_USERS}\n{_SHELTERS}\n"
        "WHERE e.type = :type AND u.user_id = :user",
        10,
    ),
)


def period_at(period_s: int, speed: float) -> int:
    """A period in compressed time: whole seconds, rounded up, and never below one.

    Spark needs a fair part of a second per run, so a period of 10 s cannot become 1/6 s. The
    channels then run less often than 60-fold time would have it; no record is seen twice or never.
    """
    return max(SHORTEST_PERIOD_S, math.ceil(period_s / speed))


def statements(speed: float = 1.0) -> tuple[str, ...]:
    """The DDL of the city when a second of the run stands for `speed` seconds of the trace."""
    return (*DATASETS.values(), *(channel.statement(speed) for channel in CHANNELS))


def describe(speed: float) -> str:
    """The lines that open the demo: what is compressed, and what is not."""
    paper = ", ".join(str(channel.period_s) for channel in CHANNELS)
    here = ", ".join(str(period_at(channel.period_s, speed)) for channel in CHANNELS)
    return (
        f"Time runs {speed:g}-fold: one second here is {speed:g} seconds in the city.\n"
        f"Channel periods are {paper} s in the city, {here} s here "
        f"(whole seconds, at least {SHORTEST_PERIOD_S})."
    )


def place_arguments(place: Place) -> Arguments:
    return {"lat": place.lat, "lon": place.lon, "km": NEAR_PLACE_KM}
