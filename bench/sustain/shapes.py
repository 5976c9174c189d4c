"""What is published and asked: a dataset, a channel, its parameter sets, and records of which each
matches exactly one set.

`due_us` in a record is when it was to be sent, on the clock that all processes of a machine share
(`clock_us`); the channel hands it on, so that whoever has the result knows how old it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

DATASET = "reports"
CHANNEL = "c"
MESSAGE = "The road is closed in both directions; use the bridge at the mill instead. " * 2
_STEP = 7919  # a prime: neighbours in number are not neighbours in place
_APART_DEGREES = 0.05  # more than 2.7 km up to 60 degrees north: no two balls of 1 km meet
_COLUMNS = 1000


class Shape(NamedTuple):
    """How records and parameter sets belong together."""

    name: str
    columns: dict[str, str]
    """What records have besides `number`, `due_us` and `message`."""
    parameters: dict[str, str]
    where: str
    arguments: Callable[[int, int], dict[str, Any]]
    """Of the parameter set with that number, of so many."""
    fields: Callable[[int, int], dict[str, Any]]
    """Of a record that matches that set alone."""

    def dataset(self) -> str:
        columns = {"number": "BIGINT", "due_us": "BIGINT", **self.columns, "message": "STRING"}
        return f"CREATE DATASET {DATASET} ({_declared(columns)})"

    def channel(self, name: str = CHANNEL) -> str:
        return (
            f"CREATE CONTINUOUS CHANNEL {name}({_declared(self.parameters)}) AS "  # noqa: S608
            f"SELECT r.number, r.due_us, r.message FROM NEW {DATASET} r WHERE {self.where}"
        )

    def sets(self, count: int) -> Iterator[dict[str, Any]]:
        return (self.arguments(number, count) for number in range(count))


def clock_us() -> int:
    """Microseconds on a clock that every process of this machine reads alike."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def _declared(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _kind(number: int, count: int) -> dict[str, Any]:
    return {"kind": f"kind-{number}"}


def _place(number: int, count: int) -> tuple[float, float]:
    """On a lattice that a million sets fill up to 50 degrees north and east."""
    at = number * _STEP % count if count % _STEP else number
    return round(at // _COLUMNS * _APART_DEGREES, 4), round(at % _COLUMNS * _APART_DEGREES, 4)


def _ball(number: int, count: int) -> dict[str, Any]:
    lat, lon = _place(number, count)
    return {"lat": lat, "lon": lon, "km": 1.0}


def _point(number: int, count: int) -> dict[str, Any]:
    """Some hundred metres off the centre."""
    lat, lon = _place(number, count)
    return {"lat": round(lat + 0.003, 4), "lon": round(lon + 0.002, 4)}


_POSITION = {"lat": "DOUBLE", "lon": "DOUBLE"}
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("equality", {"kind": "STRING"}, {"kind": "STRING"}, "r.kind = :kind", _kind, _kind),
        Shape(
            "near",
            _POSITION,
            {**_POSITION, "km": "DOUBLE"},
            "near(r.lat, r.lon, :lat, :lon, :km)",
            _ball,
            _point,
        ),
    )
}


def bodies(
    shape: Shape, asked: Sequence[int], count: int, first: int, due_us: int
) -> Iterator[bytes]:
    """Records as JSON, numbered from `first`, for the sets with these numbers."""
    import msgspec

    encode = msgspec.json.encode
    for number, at in enumerate(asked, first):
        record = {"number": number, "due_us": due_us, **shape.fields(at, count)}
        yield encode({**record, "message": MESSAGE})
