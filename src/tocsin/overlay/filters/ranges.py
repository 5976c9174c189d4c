"""Unions of half-open ranges of keys, [low, high): ascending, apart, none empty.

Equal sets of keys are equal tuples. None means unbounded: no lower end as `low`, no upper end as
`high`. Keys may be of any comparable type.
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
    """The union of any ranges."""
    filled = [(low, high) for low, high in ranges if low is None or high is None or low < high]
    filled.sort(key=lambda range_: (range_[0] is not None, range_[0]))
    union: list[Range] = []
    for low, high in filled:
        if union and (low is None or union[-1][1] is None or low <= union[-1][1]):
            union[-1] = (union[-1][0], _later(union[-1][1], high))
        else:
            union.append((low, high))
    return tuple(union)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    common: list[Range] = []
    at_first = at_second = 0
    while at_first < len(first) and at_second < len(second):
        (low, high), (low_there, high_there) = first[at_first], second[at_second]
        begin = low if low_there is None or (low is not None and low >= low_there) else low_there
        first_ends = high_there is None or (high is not None and high <= high_there)
        end = high if first_ends else high_there
        if begin is None or end is None or begin < end:
            common.append((begin, end))
        if first_ends:
            at_first += 1
        else:
            at_second += 1
    return tuple(common)


def complement(ranges: Ranges) -> Ranges:
    between: list[Range] = []
    begin = None
    for low, high in ranges:
        if low is not None:
            between.append((begin, low))
        if high is None:
            return tuple(between)
        begin = high
    return (*between, (begin, None))


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    return intersection(ranges, complement(removed))


def inside(small: Ranges, large: Ranges) -> bool:
    """Is every key of `small` in `large`?"""
    at = 0
    for low, high in small:
        while at < len(large) and not _ends_after(large[at][1], low):
            at += 1
        if at == len(large):
            return False
        low_there, high_there = large[at]
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


def _low(range_: Range) -> Any:
    return range_[0]


def _later(first: Any, second: Any) -> Any:
    return None if first is None or second is None else max(first, second)


def _ends_after(high: Any, low: Any) -> bool:
    """Does a range with this end reach beyond the beginning of another?"""
    return high is None or low is None or high > low
