"""Which of many ranges contain a key, with a few comparisons for each that does.

Blocks of doubling size, each sorted by where its ranges begin, with a tree of the latest ends above
it. A new range goes into the smallest block; full blocks are merged. Knows no filters.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Generic, TypeVar

from tocsin.overlay.filters.ranges import Range

T = TypeVar("T")
SMALLEST = 32
"""Up to so many ranges are searched linearly."""


class _End:
    """Before or after every key."""

    def __init__(self, *, after: bool) -> None:
        self._after = after

    def __lt__(self, other: object) -> bool:
        return not self._after and self is not other

    def __gt__(self, other: object) -> bool:
        return self._after and self is not other


_FIRST, _LAST = _End(after=False), _End(after=True)


class _Entry(Generic[T]):
    __slots__ = ("high", "low", "thing")

    def __init__(self, low: Any, high: Any, thing: T) -> None:
        self.low = _FIRST if low is None else low
        self.high = _LAST if high is None else high
        self.thing: T | None = thing  # None: removed


class _Block(Generic[T]):
    def __init__(self, entries: list[_Entry[T]]) -> None:
        entries.sort(key=_low)
        self.entries = entries
        self._lows = [entry.low for entry in entries]
        self._width = 1 << (len(entries) - 1).bit_length()
        latest: list[Any] = [_FIRST] * self._width + [entry.high for entry in entries]
        latest += [_FIRST] * (2 * self._width - len(latest))
        for at in range(self._width - 1, 0, -1):
            left, right = latest[2 * at], latest[2 * at + 1]
            latest[at] = right if left < right else left
        self._latest = latest

    def find(self, key: Any, things: list[T]) -> None:
        """Of the ranges that begin at or before the key, those that end after it."""
        end, latest = bisect_right(self._lows, key), self._latest
        nodes = [(1, 0, self._width)]
        while nodes:
            at, first, size = nodes.pop()
            if first >= end or not latest[at] > key:
                continue
            if size == 1:
                thing = self.entries[first].thing
                if thing is not None:
                    things.append(thing)
                continue
            half = size // 2
            nodes.append((2 * at, first, half))
            nodes.append((2 * at + 1, first + half, half))


class Intervals(Generic[T]):
    """Things, each with the range under which it is found."""

    def __init__(self) -> None:
        self._there: dict[T, _Entry[T]] = {}
        self._loose: list[_Entry[T]] = []
        self._blocks: list[_Block[T] | None] = []
        self._gone = 0

    def __len__(self) -> int:
        return len(self._there)

    def add(self, range_: Range, thing: T) -> None:
        entry = self._there[thing] = _Entry(range_[0], range_[1], thing)
        self._loose.append(entry)
        if len(self._loose) > SMALLEST:
            self._settle()

    def remove(self, thing: T) -> None:
        self._there.pop(thing).thing = None
        self._gone += 1
        if self._gone > max(SMALLEST, len(self._there)):
            self._gone, self._loose = 0, []
            self._blocks = [_Block(list(self._there.values()))] if self._there else []

    def find(self, key: Any) -> list[T]:
        things = [
            entry.thing
            for entry in self._loose
            if entry.thing is not None and not entry.low > key and entry.high > key
        ]
        for block in self._blocks:
            if block is not None:
                block.find(key, things)
        return things

    def _settle(self) -> None:
        """Into the first free block, with all that is in the smaller ones."""
        entries, self._loose = self._loose, []
        at = 0
        while at < len(self._blocks) and (block := self._blocks[at]) is not None:
            entries += block.entries
            self._blocks[at] = None
            at += 1
        self._blocks[at : at + 1] = [_Block(entries)]


def _low(entry: _Entry[Any]) -> Any:
    return entry.low
