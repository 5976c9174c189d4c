"""Where a filter is found besides by the keys of its columns: under the cells of its ball, or under
the beginning, the end or a part of a text. A record looks under its own.

Each is the same in two directions: `of` a filter's condition, and `by` a record's keys. Only levels
of cells and lengths of text that are in use are looked under.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

from tocsin.geo import cells, cover, level_of
from tocsin.overlay.filters.filter import FARTHEST_DEGREES, Near, Record


class Places(Protocol):
    def of(self, condition: Any, *, leaves: bool = False) -> list[Any]: ...

    def by(self, keys: Record) -> Iterable[Any]: ...


class Cells:
    """By balls around points, which are in the columns divided by their scales."""

    def __init__(self, lat: str, lon: str, lat_scale: int, lon_scale: int) -> None:
        self._lat, self._lon = lat, lon
        self._scales = lat_scale, lon_scale
        self._levels: Counter[int] = Counter()

    def of(self, condition: Near, *, leaves: bool = False) -> list[Any]:
        _count(self._levels, level_of(condition.km), leaves)
        return list(cover(condition.lat, condition.lon, condition.km))

    def by(self, keys: Record) -> Iterable[Any]:
        lat, lon = keys.get(self._lat), keys.get(self._lon)
        if lat is None or lon is None:
            return ()
        lat, lon = lat / self._scales[0], lon / self._scales[1]
        if abs(lat) > FARTHEST_DEGREES or abs(lon) > FARTHEST_DEGREES:
            return ()
        return cells(lat, lon, list(self._levels))


class _Texts:
    def __init__(self, column: str) -> None:
        self._column = column
        self._lengths: Counter[int] = Counter()

    def of(self, condition: str, *, leaves: bool = False) -> list[Any]:
        _count(self._lengths, len(condition), leaves)
        return [condition]


class Beginnings(_Texts):
    def by(self, keys: Record) -> Iterable[Any]:
        text = keys.get(self._column)
        if text is None:
            return ()
        return [text[:length] for length in self._lengths if length <= len(text)]


class Ends(_Texts):
    def by(self, keys: Record) -> Iterable[Any]:
        text = keys.get(self._column)
        if text is None:
            return ()
        return [text[-length:] for length in self._lengths if length <= len(text)]


class Parts(_Texts):
    def by(self, keys: Record) -> Iterable[Any]:
        text = keys.get(self._column)
        if text is None:
            return ()
        return {
            text[at : at + length]
            for length in self._lengths
            for at in range(len(text) - length + 1)
        }


def _count(counter: Counter[int], what: int, leaves: bool) -> None:
    counter[what] += -1 if leaves else 1
    if not counter[what]:
        del counter[what]
