"""The records that the demo's city publishes: emergencies, shelters, and where people walk.

Publications of reporters are text of 200 to 1000 bytes, as in the BAD prototype. Pure: the random
source is passed in, and so is the time that a record is stamped with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import TypeVar

import msgspec

from tocsin.demo import city
from tocsin.demo.player import Record

SMALLEST_BYTES, LARGEST_BYTES = 200, 1000
SPEED_KMH = 25.0
TYPE_EXPONENT = 0.8  # emergencies are less uneven than the interest in them
PLACE_EXPONENT = 0.5

_SENTENCES = (
    "Keep away from the area.",
    "Emergency services are on their way.",
    "The road is closed in both directions.",
    "Several people were brought to safety.",
    "Follow the instructions of the fire brigade.",
    "Residents should stay indoors and close windows.",
    "Electricity and water may be cut off for some hours.",
    "Please check on neighbours who may need help.",
    "Buses and trams use another route until further notice.",
    "Schools nearby remain closed for the day.",
)

Thing = TypeVar("Thing")


def stamped(record: Record, now: float) -> Record:
    """The record as it is sent, reported at `now` (seconds since the epoch)."""
    return {
        **record,
        "reported_at": datetime.fromtimestamp(now, UTC).isoformat(" ", "milliseconds"),
    }


def size_bytes(record: Record) -> int:
    return len(msgspec.json.encode(record))


def emergency(
    report_id: str, types: Sequence[str], places: Sequence[city.Place], random: Random
) -> Record:
    """One report. The earlier a type or place stands in its list, the more often it is hit."""
    place = _ranked(places, PLACE_EXPONENT, random)
    lat, lon = city.offset(place.lat, place.lon, random.gauss(0, 0.8), random.gauss(0, 0.8))
    kind = _ranked(types, TYPE_EXPONENT, random)
    severity = random.choices((1, 2, 3, 4, 5), (30, 30, 20, 14, 6))[0]
    record: Record = {
        "report_id": report_id,
        "type": kind,
        "severity": severity,
        "place": place.name,
        "lat": lat,
        "lon": lon,
        "message": f"{kind.capitalize()} at {place.name}, severity {severity}.",
    }
    return _filled(record, random)


def drill() -> Record:
    """A report from far away, of a kind that nobody asks for: every channel runs, none matches."""
    return {
        "report_id": "drill",
        "type": "drill",
        "severity": 1,
        "place": "far away",
        "lat": 0.0,
        "lon": 0.0,
        "message": "This is a drill.",
    }


def shelter(number: int, random: Random) -> Record:
    place = random.choice(city.PLACES)
    lat, lon = city.offset(place.lat, place.lon, random.gauss(0, 0.6), random.gauss(0, 0.6))
    return shelter_news(
        {"shelter_id": f"shelter-{number:03d}", "name": f"{place.name} {number}"}
        | {"lat": lat, "lon": lon},
        random,
    )


def shelter_news(of: Record, random: Random) -> Record:
    """The newest word of a shelter: how many beds are free now."""
    free_beds = random.randint(0, 200)
    message = f"{of['name']} has {free_beds} free beds."
    return _filled({**of, "free_beds": free_beds, "message": message}, random)


class Walk:
    """A user's way through the city, from place to place; popular places draw more people."""

    def __init__(self, user_id: str, places: Sequence[city.Place], random: Random) -> None:
        self._user_id = user_id
        self._places = places
        self._random = random
        start = random.choice(places)
        self.lat, self.lon = start.lat, start.lon
        self._target = self._next()

    def go_on(self, seconds: float) -> None:
        """Walk towards the target, and choose the next one on arrival."""
        way_km = SPEED_KMH * seconds / 3600
        north_km, east_km = city.apart(self.lat, self.lon, self._target.lat, self._target.lon)
        left_km = math.hypot(north_km, east_km)
        if left_km <= way_km:
            self.lat, self.lon = self._target.lat, self._target.lon
            self._target = self._next()
            return
        part = way_km / left_km
        self.lat, self.lon = city.offset(self.lat, self.lon, north_km * part, east_km * part)

    def record(self) -> Record:
        return {"user_id": self._user_id, "lat": self.lat, "lon": self.lon}

    def _next(self) -> city.Place:
        return _ranked(self._places, PLACE_EXPONENT, self._random)


def _ranked(things: Sequence[Thing], exponent: float, random: Random) -> Thing:
    weights = [rank**-exponent for rank in range(1, len(things) + 1)]
    return random.choices(things, weights)[0]


def _filled(record: Record, random: Random) -> Record:
    """The record with its message drawn out to a size between the smallest and the largest."""
    wanted = random.randint(SMALLEST_BYTES, LARGEST_BYTES)
    missing = wanted - size_bytes(stamped(record, 0.0))
    text = str(record["message"])
    while missing > 0:
        sentence = (" " + random.choice(_SENTENCES))[:missing]
        text += sentence
        missing -= len(sentence)
    return {**record, "message": text}
