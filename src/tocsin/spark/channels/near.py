"""`near(lat1, lon1, lat2, lon2, km)`: the exact great-circle test, and grid cells to join on.

The meaning and the grid are those of `tocsin.geo`, here as text of Spark SQL: a ball and a
point meet in at most one cell, and only then is the exact test made. Where the balls are read anew
for each few points, it is turned round: a ball has the one cell of its centre, a point all cells
where centres may lie. No data passes through here.
"""

from __future__ import annotations

from tocsin.geo import GROWTH, HIGHEST_LEVEL, LOWEST_LEVEL, MARGIN_KM, RADIUS_KM

LEVELS = range(LOWEST_LEVEL, HIGHEST_LEVEL + 1)

_AXIS_BITS = 18
_AXIS_OFFSET = 1 << (_AXIS_BITS - 1)
_R = f"{RADIUS_KM}D"


def exact(lat1: str, lon1: str, lat2: str, lon2: str, km: str) -> str:
    """Whether the great-circle distance (haversine) is at most `km`; NULL in, NULL out."""
    a1, o1, a2, o2, far = (f"CAST({value} AS DOUBLE)" for value in (lat1, lon1, lat2, lon2, km))
    half_chord = (
        f"POWER(SIN(RADIANS({a2} - {a1}) / 2), 2) + COS(RADIANS({a1})) * COS(RADIANS({a2}))"
        f" * POWER(SIN(RADIANS({o2} - {o1}) / 2), 2)"
    )
    # Rounding may leave [0, 1] by a hair. LEAST and GREATEST would turn NULL into a number.
    inside = f"IF({half_chord} > 1, CAST(1 AS DOUBLE), ABS({half_chord}))"
    return f"((2 * {_R} * ASIN(SQRT({inside}))) <= {far})"


def _chord(km: str) -> str:
    angle = f"LEAST(CAST({km} AS DOUBLE) / (2 * {_R}), PI() / 2)"
    return f"(2 * {_R} * SIN({angle}) * {GROWTH!r}D + {MARGIN_KM!r}D)"


def level(km: str) -> str:
    """As `geo.level_of`, in SQL; NULL for a radius below nothing."""
    return (
        f"IF({km} >= 0, GREATEST({LOWEST_LEVEL}, CAST(CEIL(LOG2(2 * {_chord(km)})) AS INT)), NULL)"
    )


def _axes(lat: str, lon: str) -> tuple[str, str, str]:
    a, o = f"RADIANS(CAST({lat} AS DOUBLE))", f"RADIANS(CAST({lon} AS DOUBLE))"
    return f"({_R} * COS({a}) * COS({o}))", f"({_R} * COS({a}) * SIN({o}))", f"({_R} * SIN({a}))"


def _pack(at_level: str, i: str, j: str, k: str) -> str:
    packed = f"CAST({at_level} + {-LOWEST_LEVEL} AS BIGINT)"
    for axis in (i, j, k):
        packed = f"({packed} * {1 << _AXIS_BITS} + {axis} + {_AXIS_OFFSET})"
    return packed


def _size(at_level: str) -> str:
    return f"POWER(CAST(2 AS DOUBLE), {at_level})"


def cell(lat: str, lon: str, at_level: str) -> str:
    """The key of the cell that a point lies in."""
    i, j, k = (f"FLOOR({axis} / {_size(at_level)})" for axis in _axes(lat, lon))
    return _pack(at_level, i, j, k)


def cells_on(lat: str, lon: str, levels: str) -> str:
    """An array of the keys of a point's cells, one for each level of the array `levels`."""
    return f"TRANSFORM({levels}, __l -> {cell(lat, lon, '__l')})"


def cover(lat: str, lon: str, km: str, at_level: str) -> str:
    """An array of the keys of the cells that a ball touches; none for a radius below nothing."""
    cells = _touched(lat, lon, _chord(km), at_level)
    return f"IF({km} >= 0, {cells}, CAST(ARRAY() AS ARRAY<BIGINT>))"


def cells_around(lat: str, lon: str, levels: str) -> str:
    """An array of the keys of the cells in which the balls that hold a point may have their
    centres: of each level of the array `levels`, on which a ball's chord is half a cell at most."""
    cells = _touched(lat, lon, f"({_size('__l')} / 2)", "__l")
    return f"FLATTEN(TRANSFORM({levels}, __l -> {cells}))"


def _touched(lat: str, lon: str, chord: str, at_level: str) -> str:
    def span(axis: str) -> str:
        low, high = f"(__q.{axis} - __q.c) / __q.s", f"(__q.{axis} + __q.c) / __q.s"
        return f"SEQUENCE(FLOOR({low}), FLOOR({high}))"

    x, y, z = _axes(lat, lon)
    ball = (
        f"NAMED_STRUCT('x', {x}, 'y', {y}, 'z', {z}, 'c', {chord}, 'l', {at_level},"
        f" 's', {_size(at_level)})"
    )
    along_z = f"TRANSFORM({span('z')}, __k -> {_pack('__q.l', '__i', '__j', '__k')})"
    along_y = f"FLATTEN(TRANSFORM({span('y')}, __j -> {along_z}))"
    cells = f"FLATTEN(TRANSFORM({span('x')}, __i -> {along_y}))"
    # The lambda names the ball's measures, so that they are computed once and not in every cell.
    return f"FLATTEN(TRANSFORM(ARRAY({ball}), __q -> {cells}))"
