"""The cached results of one backend subscription: one contiguous newest suffix, tail to newest.

Why a suffix: acknowledgements are cumulative and a subscriber only gets results made after it
joined, so whoever waits for an object waits for every newer one too, and consumption runs from
the tail. Hence a get is a split point, and one counter says who still waits for the tail.
Knows no budget and no policy; `ResultCache` does.
"""

from __future__ import annotations

from tocsin.model import Result
from tocsin.policies import Candidate

_COMPACT_AT = 64  # dead slots before the list is shortened; keeps removal O(1) amortised


class Suffix:
    """Positions [tail, next) are cached. Empty: tail == next, the position that comes next."""

    __slots__ = (
        "_cached_at",
        "_marked",
        "_objects",
        "_start",
        "ahead",
        "arrival_bytes",
        "arrival_rate",
        "attached",
        "candidate",
        "consumption_bytes",
        "consumption_rate",
        "measured",
        "next",
        "size_bytes",
        "tail",
        "waiting",
    )

    def __init__(self, backend: int, newest: int) -> None:
        self.next = self.tail = newest + 1
        self.size_bytes = 0
        self.attached = 0
        self.waiting = 0  # subscribers with a marker before the tail
        self.ahead = 0  # subscribers that need not even the next one: they took it elsewhere
        self._marked: dict[int, int] = {}  # marker at or after the tail -> how many stand there
        self._objects: list[Result | None] = []
        self._cached_at: list[float] = []
        self._start = 0
        self.candidate = Candidate(backend=backend)
        self.measured = False
        self.arrival_rate = self.consumption_rate = 0.0  # bytes per second, moving averages
        self.arrival_bytes = self.consumption_bytes = 0  # since the last estimate

    def __len__(self) -> int:
        return self.next - self.tail

    # -- who waits ---------------------------------------------------------------------------

    def attach(self, marker: int, subscribers: int) -> None:
        self.attached += subscribers
        self._stand(marker, subscribers)

    def detach(self, marker: int, subscribers: int) -> None:
        self.attached -= subscribers
        self._stand(marker, -subscribers)

    def advance(self, old: int, new: int, subscribers: int) -> None:
        self._stand(old, -subscribers)
        self._stand(new, subscribers)

    @property
    def waiting_for_next(self) -> int:
        """How many the next object is for."""
        return self.attached - self.ahead

    def _stand(self, marker: int, subscribers: int) -> None:
        if marker < self.tail:
            self.waiting += subscribers
            return
        if marker >= self.next:
            self.ahead += subscribers
        standing = self._marked.get(marker, 0) + subscribers
        if standing:
            self._marked[marker] = standing
        else:
            del self._marked[marker]

    def _move_next(self, to: int) -> None:
        if self.ahead:
            passed = (n for marker, n in self._marked.items() if self.next <= marker < to)
            self.ahead -= sum(passed)
        self.next = to

    def _move_tail(self, to: int) -> None:
        """Markers that the tail passes begin to wait: O(1) a step, at most O(markers) a jump."""
        marked = self._marked
        if to - self.tail <= len(marked):
            for position in range(self.tail, to):
                self.waiting += marked.pop(position, 0)
        else:
            for position in [p for p in marked if p < to]:
                self.waiting += marked.pop(position)
        self.tail = to

    # -- objects -----------------------------------------------------------------------------

    def append(self, result: Result, now: float) -> None:
        self._objects.append(result)
        self._cached_at.append(now)
        self.size_bytes += result.size_bytes
        self._move_next(self.next + 1)

    def pop_tail(self) -> Result:
        result = self._objects[self._start]
        assert result is not None
        self._objects[self._start] = None
        self._start += 1
        if self._start >= _COMPACT_AT and self._start * 2 >= len(self._objects):
            del self._objects[: self._start], self._cached_at[: self._start]
            self._start = 0
        self.size_bytes -= result.size_bytes
        self._move_tail(self.tail + 1)
        return result

    def skip(self, newest: int) -> None:
        """An empty suffix goes on after `newest` without having cached up to there."""
        self._move_next(newest + 1)
        self._move_tail(newest + 1)

    def slice(self, after: int, upto: int) -> list[Result]:
        """Cached results in (after, upto]: the split point is arithmetic, not a search."""
        first = self._start + max(after + 1 - self.tail, 0)
        last = self._start + upto + 1 - self.tail
        return self._objects[first : max(last, first)]  # type: ignore[return-value]

    def refresh(self) -> Candidate:
        """The candidate as policies see it now. Only for a suffix that is not empty."""
        tail = self._objects[self._start]
        assert tail is not None
        return self.describe(tail, self._cached_at[self._start])

    def describe(self, tail: Result, cached_at: float) -> Candidate:
        candidate = self.candidate
        candidate.attached = self.attached
        candidate.waiting = self.waiting
        candidate.tail_size_bytes = tail.size_bytes
        candidate.tail_created_at = tail.created_at
        candidate.tail_cached_at = cached_at
        return candidate
