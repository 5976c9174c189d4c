"""A consumer log in order: what came, what is missing, and what was lost. Sans-I/O.

A log holds results in nearly any order: those that were not admitted come later, filled in, and at
times twice. They leave here once each, by position, without holes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

ROOM = 10_000
MOST_AT_ONCE = 1000


class Taken(NamedTuple):
    """`lost`: (first, last) of the results just before this one that nobody has any more. `filled`:
    it was missing, and came behind newer ones."""

    position: int
    item: Any
    lost: tuple[int, int] | None
    filled: bool = False


class LogOrder:
    def __init__(self, after: int, room: int = ROOM) -> None:
        self._taken = after  # every position up to here has left
        self._room = room  # positions further ahead are dropped, and missed later
        self._waiting: dict[int, tuple[Any, bool]] = {}  # what came, and whether it was filled in
        self._head = after  # the newest position heard of
        self._floor = 0  # up to here the store has nothing any more
        self._requested = after  # every hole up to here was asked for
        self._lost: tuple[int, int] | None = None
        self._offsets: dict[int, int] = {}  # position → where it is in the log, if not acknowledged
        self._end = 0  # of what was read of the log

    def put(self, position: int, offset: int, item: Any) -> None:
        """A result came."""
        filled = position <= self._head  # what is written at once comes in order
        self._head = max(self._head, position)
        self._end = offset + 1
        if self._taken < position <= self._taken + self._room:
            self._waiting.setdefault(position, (item, filled))
            self._offsets[position] = offset

    def mark(self, position: int, offset: int) -> None:
        """There are results up to here."""
        self._head = max(self._head, position)
        self._end = offset + 1

    def expired(self, floor: int, offset: int) -> None:
        """What is missing up to here will not come."""
        self.mark(floor, offset)
        self._floor = max(self._floor, floor)

    def pop(self) -> Taken | None:
        """The next result, if it is there."""
        following = self._taken + 1
        if following not in self._waiting:
            last = min(self._floor, min(self._waiting, default=self._floor + 1) - 1)
            if last < following:
                return None
            first = self._lost[0] if self._lost else following
            self._lost = first, last
            self._taken = last
            return self.pop()
        self._taken = following
        lost, self._lost = self._lost, None
        item, filled = self._waiting.pop(following)
        return Taken(following, item, lost, filled)

    def put_back(self, taken: Taken) -> None:
        """What was popped last turned out to be empty: it is missing."""
        self._taken = taken.position - 1
        self._lost = taken.lost
        self._offsets.pop(taken.position, None)
        self._requested = min(self._requested, self._taken)

    def holes(self) -> list[tuple[int, int]]:
        """Ranges (after, upto] to ask for; each is told once, until `ask_again`."""
        ranges: list[tuple[int, int]] = []
        upto = min(self._head, self._taken + self._room)
        for position in range(max(self._taken, self._requested) + 1, upto + 1):
            if position in self._waiting:
                continue
            last = ranges[-1] if ranges else (0, 0)
            if last[1] == position - 1 and position - last[0] <= MOST_AT_ONCE and ranges:
                ranges[-1] = last[0], position
            else:
                ranges.append((position - 1, position))
        self._requested = max(self._requested, upto)
        return ranges

    def ask_again(self) -> None:
        self._requested = self._taken

    @property
    def complete(self) -> bool:
        """Nothing that was heard of is missing."""
        return self._taken + len(self._waiting) >= self._head

    def acknowledge(self, position: int) -> int:
        """The offset to resume from when everything up to `position` is done with."""
        for offset in [offset for offset in self._offsets if offset <= position]:
            del self._offsets[offset]
        return min(self._offsets.values(), default=self._end)
