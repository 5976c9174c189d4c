"""What `near(lat1, lon1, lat2, lon2, km)` means, and the grid by which near things are found.

Channels say the same in Spark SQL (`spark/channels/near.py`); filters call these functions.
Cells are those of a cubic grid around the unit sphere scaled to kilometres, so that neither the
poles nor the date line are special. Level L has cells of 2^L km. A ball of chord c lives on the
lowest level with 2^L >= 2c, where it touches at most two cells per axis: eight in all. A point
lies in one cell of each level. So a ball and a point meet in at most one cell.
"""

from __future__ import annotations

import math

RADIUS_KM = 6371.0088
LOWEST_LEVEL = -3  # 125 m: below that, cells only cost keys
HIGHEST_LEVEL = 15  # 32,768 km holds any ball
HALF_WAY_ROUND_KM = 2 * RADIUS_KM * math.asin(1.0)  # no distance is longer

# The grid must never lose what the exact test accepts. Rounding moves a point by far less than a
# millimetre, so the ball grows by that and a little in proportion.
GROWTH = 1 + 1e-9
MARGIN_KM = 1e-6

Cell = tuple[int, int, int, int]


def distance_km(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """The great-circle distance (haversine): the same number whichever point comes first."""
    across = math.sin(math.radians(lat2 - lat1) / 2) ** 2
    along = math.sin(math.radians(lon2 - lon1) / 2) ** 2
    half = across + math.cos(math.radians(lat1)) * math.cos(math.radians(lat2)) * along
    # Rounding may leave [0, 1] by a hair.
    return 2 * RADIUS_KM * math.asin(math.sqrt(1.0 if half > 1 else abs(half)))


def chord_km(km: float) -> float:
    return 2 * RADIUS_KM * math.sin(min(km / (2 * RADIUS_KM), math.pi / 2)) * GROWTH + MARGIN_KM


def level_of(km: float) -> int:
    """The level on which a ball of that radius lives."""
    return max(LOWEST_LEVEL, math.ceil(math.log2(2 * chord_km(km))))


def _axes(lat: float, lon: float) -> tuple[float, float, float]:
    a, o = math.radians(lat), math.radians(lon)
    around = RADIUS_KM * math.cos(a)
    return around * math.cos(o), around * math.sin(o), RADIUS_KM * math.sin(a)


def cells(lat: float, lon: float, levels: list[int]) -> list[Cell]:
    """The cells that a point lies in, one on each of the levels."""
    x, y, z = _axes(lat, lon)
    sizes = [(level, 2.0**level) for level in levels]
    return [
        (level, math.floor(x / size), math.floor(y / size), math.floor(z / size))
        for level, size in sizes
    ]


def cover(lat: float, lon: float, km: float) -> list[Cell]:
    """The cells that a ball touches, on its level."""
    level, chord = level_of(km), chord_km(km)
    size = 2.0**level
    spans = [
        range(math.floor((axis - chord) / size), math.floor((axis + chord) / size) + 1)
        for axis in _axes(lat, lon)
    ]
    return [(level, i, j, k) for i in spans[0] for j in spans[1] for k in spans[2]]
