"""Unions of half-open ranges of keys, [low, high): ascending, apart, none empty.

Equal sets of keys are equal tuples. None is the end of the line: as `low` nothing is smaller, as
`high` nothing is larger. Knows no kinds: any keys that can be compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

Range = tuple[Any, Any]
Ranges = tuple[Range, ...]

EVERYTHING: Ranges = ((None, None),)


def united(ranges: Iterable[Range]) -> Ranges:
    """Any ranges as one union."""
    filled = [one for one in ranges if one[0] is None or one[1] is None or one[0] < one[1]]
    filled.sort(key=lambda one: (one[0] is not None, one[0]))
    found: list[Range] = []
    for low, high in filled:
        if found and (low is None or found[-1][1] is None or low <= found[-1][1]):
            found[-1] = (found[-1][0], _later(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    found: list[Range] = []
    at = beside = 0
    while at < len(one) and beside < len(other):
        (low, high), (low_there, high_there) = one[at], other[beside]
        begin = low if low_there is None or (low is not None and low >= low_there) else low_there
        first_ends = high_there is None or (high is not None and high <= high_there)
        end = high if first_ends else high_there
        if begin is None or end is None or begin < end:
            found.append((begin, end))
        if first_ends:
            at += 1
        else:
            beside += 1
    return tuple(found)


def complement(ranges: Ranges) -> Ranges:
    found: list[Range] = []
    begin = None
    for low, high in ranges:
        if low is not None:
            found.append((begin, low))
        if high is None:
            return tuple(found)
        begin = high
    return (*found, (begin, None))


def without(one: Ranges, other: Ranges) -> Ranges:
    return intersection(one, complement(other))


def inside(one: Ranges, other: Ranges) -> bool:
    """Is every key of one in the other?"""
    at = 0
    for low, high in one:
        while at < len(other) and not _ends_after(other[at][1], low):
            at += 1
        if at == len(other):
            return False
        low_there, high_there = other[at]
        if low_there is not None and (low is None or low < low_there):
            return False
        if high_there is not None and (high is None or high > high_there):
            return False
    return True


def holds(ranges: Ranges, key: Any) -> bool:
    if len(ranges) == 1:
        low, high = ranges[0]
        return (low is None or low <= key) and (high is None or key < high)
    at = bisect_right(ranges, key, lo=ranges[0][0] is None, key=_low) - 1
    return at >= 0 and (ranges[at][1] is None or key < ranges[at][1])


def gaps(ranges: Ranges) -> Iterator[Range]:
    """Between the ranges."""
    for (_, high), (low, _) in pairwise(ranges):
        yield high, low


def _low(one: Range) -> Any:
    return one[0]


def _later(one: Any, other: Any) -> Any:
    return None if one is None or other is None else max(one, other)


def _ends_after(high: Any, low: Any) -> bool:
    """Does a range with this end reach beyond the beginning of another?"""
    return high is None or low is None or high > low
