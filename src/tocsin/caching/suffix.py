"""The cached results of one backend subscription: one contiguous newest suffix, tail to newest.

Why a suffix: acknowledgements are cumulative and a subscriber only gets results made after it
joined, so whoever waits for an object waits for every newer one too, and consumption runs from
the tail. Hence a get is a split point, and one group of subscribers waits for the tail.
Positions grow; of a filter's results they have holes, where records are that it does not match.
Knows no budget and no policy; `ResultCache` does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from tocsin.model import Result
from tocsin.policies import Candidate
from tocsin.policies.result.estimates import AVERAGE_WEIGHT, growth, moving_average

_COMPACT_AT = 64  # dead slots before the list is shortened; keeps removal O(1) amortised


@dataclass(slots=True, eq=False)
class Standing:
    """Where one subscriber stands with one backend subscription. Its owner gives it to the cache
    with all that it tells, and the cache moves it."""

    marker: int  # everything up to here was taken
    away_since: float | None  # None: connected


class Group:
    """Subscribers that stand together: how many, how many of them connected, since when away."""

    __slots__ = ("away_since_ms", "present", "subscribers")

    def __init__(self) -> None:
        self.subscribers = 0
        self.present = 0
        self.away_since_ms = 0  # the sum over those that are away; whole numbers leave no rest

    def add(self, subscribers: int, away_since: float | None) -> None:
        """`away_since`: when each of them left; None if they are connected."""
        self.subscribers += subscribers
        if away_since is None:
            self.present += subscribers
        else:
            self.away_since_ms += subscribers * int(away_since * 1000)

    def merge(self, other: Group) -> None:
        self.subscribers += other.subscribers
        self.present += other.present
        self.away_since_ms += other.away_since_ms


class Idle:
    """What will be a suffix when something comes: most backend subscriptions of a broker have
    nothing to cache, and a million of them must fit."""

    __slots__ = ("_changed", "_counted", "newest", "opened", "standings")

    def __init__(self, newest: int, estimates: int) -> None:
        self.newest = newest
        self.opened = estimates  # how many estimates there had been
        self.standings: tuple[Standing, ...] = ()
        self._changed = estimates
        self._counted = 0

    def changes(self, estimates: int) -> None:
        """Called before who stands here changes: the last estimate has counted those before."""
        if self._changed != estimates:
            self._changed, self._counted = estimates, len(self.standings)

    def counted(self, estimates: int) -> int:
        """How many stood here at the last estimate."""
        return self._counted if self._changed == estimates else len(self.standings)


class Suffix:
    """All that there is in (lost, next) is cached, the oldest at `tail`. Empty: tail == next, the
    position that may come next. Without holes lost is tail - 1."""

    __slots__ = (
        "_cached_at",
        "_marked",
        "_objects",
        "_start",
        "ahead",
        "arrival_bytes",
        "arrivals",
        "candidate",
        "consumption_bytes",
        "consumption_rate",
        "everyone",
        "lost",
        "measured",
        "next",
        "size_bytes",
        "spoiled",
        "tail",
        "waiting",
    )

    def __init__(self, backend: int, newest: int) -> None:
        self.lost = newest
        self.next = self.tail = newest + 1
        self.size_bytes = 0
        self.everyone = Group()
        self.waiting = Group()  # those with a marker before the tail
        self.spoiled = 0  # of these, how many miss something already, tail or not
        self.ahead = 0  # subscribers that need not even the next one: they took it elsewhere
        self._marked: dict[int, Group] = {}  # marker at or after the tail -> who stand there
        self._objects: list[Result | None] = []
        self._cached_at: list[float] = []
        self._start = 0
        self.candidate = Candidate(backend=backend)
        self.measured = 0  # how many estimates it has been through
        self.consumption_rate = 0.0  # bytes per second, a moving average
        self.arrivals = self.arrival_bytes = self.consumption_bytes = 0  # since the last estimate

    def __len__(self) -> int:
        return len(self._objects) - self._start

    def measure(self, elapsed_s: float) -> None:
        """Take what came and was consumed since the last time into the moving averages."""
        candidate = self.candidate
        weight = AVERAGE_WEIGHT if self.measured > 1 else 1.0

        def averaged(rate: float, amount: int) -> float:
            return moving_average(rate, amount / elapsed_s, weight)

        candidate.arrival_bytes_per_s = averaged(candidate.arrival_bytes_per_s, self.arrival_bytes)
        candidate.arrivals_per_s = averaged(candidate.arrivals_per_s, self.arrivals)
        self.consumption_rate = averaged(self.consumption_rate, self.consumption_bytes)
        self.arrivals = self.arrival_bytes = self.consumption_bytes = 0
        self.measured += 1

    @property
    def growth(self) -> float:
        return growth(self.candidate.arrival_bytes_per_s, self.consumption_rate)

    # -- who waits ---------------------------------------------------------------------------

    def attach(self, who: Standing) -> bool:
        """True here and below: the tail's subscribers changed."""
        self.everyone.add(1, who.away_since)
        return self._stand(who.marker, 1, who.away_since)

    def detach(self, who: Standing) -> bool:
        self.everyone.add(-1, who.away_since)
        return self._stand(who.marker, -1, who.away_since)

    def advance(self, who: Standing, upto: int) -> bool:
        changed = self._stand(who.marker, -1, who.away_since)
        who.marker = upto
        return self._stand(upto, 1, who.away_since) or changed

    def restart(self, everyone: Group) -> None:
        """All of them, before the beginning."""
        self.everyone.merge(everyone)
        self.waiting.merge(everyone)
        if self.lost > 0:
            self.spoiled += everyone.subscribers

    @property
    def waiting_for_next(self) -> int:
        """How many the next object is for."""
        return self.everyone.subscribers - self.ahead

    def _stand(self, marker: int, subscribers: int, away_since: float | None) -> bool:
        if marker < self.tail:
            self.waiting.add(subscribers, away_since)
            if marker < self.lost:
                self.spoiled += subscribers
            return True
        if marker >= self.next:
            self.ahead += subscribers
        group = self._marked.get(marker)
        if group is None:
            group = self._marked[marker] = Group()
        group.add(subscribers, away_since)
        if not group.subscribers:
            del self._marked[marker]
        return False

    def _move_next(self, to: int) -> None:
        if self.ahead:
            passed = [g for marker, g in self._marked.items() if self.next <= marker < to]
            self.ahead -= sum(group.subscribers for group in passed)
        self.next = to

    def _move_tail(self, to: int, lost: int) -> None:
        """Markers that the tail passes begin to wait: O(1) a step, at most O(markers) a jump. What
        is up to `lost` is not here any more."""
        if to == self.tail:
            return
        passed = [to - 1] if to - self.tail == 1 else sorted(m for m in self._marked if m < to)
        for marker in passed:
            if marker < lost:
                self.waiting.merge(self._marked.pop(marker))
        if lost > self.lost:
            self.spoiled = self.waiting.subscribers
            self.lost = lost
        for marker in passed:  # the others miss nothing yet
            group = self._marked.pop(marker, None)
            if group is not None:
                self.waiting.merge(group)
        self.tail = to

    # -- objects -----------------------------------------------------------------------------

    def reach(self, position: int) -> None:
        """There is nothing before the position that is not here, or was."""
        self._move_next(position)
        if not len(self):
            self._move_tail(position, self.lost)

    def append(self, result: Result, now: float) -> None:
        """The next one: it was reached."""
        self._objects.append(result)
        self._cached_at.append(now)
        self.size_bytes += result.size_bytes
        self._move_next(self.next + 1)

    def pop_tail(self) -> tuple[Result, float]:
        """The tail object, and when it was cached."""
        result, cached_at = self._objects[self._start], self._cached_at[self._start]
        assert result is not None
        self._objects[self._start] = None
        self._start += 1
        if self._start >= _COMPACT_AT and self._start * 2 >= len(self._objects):
            del self._objects[: self._start], self._cached_at[: self._start]
            self._start = 0
        self.size_bytes -= result.size_bytes
        self._move_tail(self._oldest, result.position)
        return result, cached_at

    @property
    def _oldest(self) -> int:
        first = self._objects[self._start] if len(self) else None
        return self.next if first is None else first.position

    def skip(self, newest: int) -> None:
        """An empty suffix goes on after `newest` without having cached up to there."""
        self._move_next(newest + 1)
        self._move_tail(newest + 1, newest)

    def slice(self, after: int, upto: int) -> list[Result]:
        """Cached results in (after, upto]. Without holes the split point is arithmetic."""
        if self.next - self.tail == len(self):
            first = self._start + max(after + 1 - self.tail, 0)
            last = self._start + upto + 1 - self.tail
        else:
            first = bisect_right(self._objects, after, self._start, key=_position)
            last = bisect_right(self._objects, upto, self._start, key=_position)
        return self._objects[first : max(last, first)]  # type: ignore[return-value]

    # -- what policies see ---------------------------------------------------------------------

    def refresh(self) -> Candidate:
        """The candidate as policies see it now. Only for a suffix that is not empty."""
        tail = self._objects[self._start]
        assert tail is not None
        return self.describe(tail, self._cached_at[self._start])

    def describe(self, tail: Result, cached_at: float) -> Candidate:
        candidate = self.candidate
        candidate.attached = self.everyone.subscribers
        candidate.online = self.everyone.present
        candidate.waiting = self.waiting.subscribers
        candidate.present = self.waiting.present
        candidate.spoiled = self.spoiled
        candidate.away_since_ms = self.waiting.away_since_ms
        candidate.tail_size_bytes = tail.size_bytes
        candidate.tail_created_at = tail.created_at
        candidate.tail_cached_at = cached_at
        return candidate

    def show(self, look: Callable[[Candidate, int, int, int], bool]) -> None:
        """Show a policy the objects from the tail on, after `describe`, until it has seen enough:
        how large each is, and how many would begin to read there. (Of the tail, all that wait.)"""
        candidate = self.candidate
        if not look(candidate, 0, candidate.tail_size_bytes, self.waiting.subscribers):
            return
        before = self.tail
        for nth in range(1, len(self)):
            item = self._objects[self._start + nth]
            assert item is not None
            joining = self._standing(before, item.position)
            before = item.position
            if not look(candidate, nth, item.size_bytes, joining):
                return

    def _standing(self, first: int, end: int) -> int:
        """How many have a marker there, `end` not included."""
        if end - first == 1:
            group = self._marked.get(first)
            return group.subscribers if group else 0
        return sum(group.subscribers for at, group in self._marked.items() if first <= at < end)


def _position(result: Result | None) -> int:
    assert result is not None  # those before the start are gone
    return result.position
