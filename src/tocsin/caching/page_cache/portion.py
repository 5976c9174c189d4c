"""One portion of a page cache: its pages by value, its bytes, its age L.

Values are ranked in a heap. Each value that is set adds an entry; those that no longer hold are
skipped when they come up.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from tocsin.policies.page import Page, Rule, worth

K = TypeVar("K", bound=Hashable)
NEVER = -1
UNINTERESTING = float("-inf")


class Held(Page):
    """A page that the cache knows of; it is there if it is in a portion."""

    size_bytes: int = 0
    value: float = 0.0
    set_at: int = NEVER  # when the value was set: the number of an operation
    portion: int = NEVER
    superseded: bool = False
    born_at: int = NEVER  # the operation that first told of it, until it is removed


class Portion(Generic[K]):
    def __init__(self, rule: Rule, limit_bytes: int, cost: float, number: int) -> None:
        self.rule = rule
        self.limit_bytes = limit_bytes
        self.number = number
        self.size_bytes = 0
        self.age = 0.0  # L
        self.evicted_at = NEVER  # when room was last made here for a page that comes here
        self.pages: dict[K, Held] = {}
        self._cost = cost
        self._heap: list[tuple[float, int, K]] = []

    @property
    def free_bytes(self) -> int:
        return self.limit_bytes - self.size_bytes

    def worth_now(self, page: Held) -> float:
        """V as it would be set now (delivery, equation 1 and equation 5)."""
        return self.age + worth(
            self.rule.frequency(page), self._cost, page.size_bytes, self.rule.beta
        )

    def put(self, key: K, page: Held, now: int) -> None:
        self.pages[key] = page
        self.size_bytes += page.size_bytes
        page.portion = self.number
        self.value_anew(key, page, now)

    def value_anew(self, key: K, page: Held, now: int) -> None:
        page.value = UNINTERESTING if page.superseded else self.worth_now(page)
        page.set_at = now
        heapq.heappush(self._heap, (page.value, now, key))
        if len(self._heap) > 2 * len(self.pages) + 64:  # too many entries that no longer hold
            self._heap = [(held.value, held.set_at, at) for at, held in self.pages.items()]
            heapq.heapify(self._heap)

    def take_out(self, key: K) -> Held:
        page = self.pages.pop(key)
        self.size_bytes -= page.size_bytes
        page.portion = NEVER
        return page

    def evict_until(self, free_bytes: int, now: int) -> list[K]:
        """The smallest values leave, of equal ones the one set longest ago (delivery 2.2.1); L is
        the last one's. What is uninteresting leaves without a trace in L."""
        evicted = []
        while self.free_bytes < free_bytes:
            value, _, key = self._pop()
            self.take_out(key)
            evicted.append(key)
            if self.rule.ages and value != UNINTERESTING:
                self.age = value
            self.evicted_at = now
        return evicted

    def bytes_below(self, value: float, enough_bytes: int) -> int:
        """Of pages that are worth less, but no more is counted than is enough."""
        seen: list[tuple[float, int, K]] = []
        below_bytes = 0
        while below_bytes < enough_bytes:
            entry = self._pop_below(value)
            if entry is None:
                break
            seen.append(entry)
            below_bytes += self.pages[entry[2]].size_bytes
        self._push_back(seen)
        return below_bytes

    def stale(self, needed_bytes: int, most_bytes: int) -> list[K]:
        """Pages last requested before the last eviction here, smallest value first, as many as are
        needed; one that would exceed the bound is passed over. None if they are not enough. (Here
        values are set by requests alone.)"""
        if needed_bytes > most_bytes:
            return []
        seen: list[tuple[float, int, K]] = []
        chosen: list[K] = []
        freed_bytes = 0
        while freed_bytes < needed_bytes:
            entry = self._pop_below(float("inf"))
            if entry is None:
                break
            seen.append(entry)
            page = self.pages[entry[2]]
            is_stale = page.superseded or page.set_at < self.evicted_at
            if is_stale and freed_bytes + page.size_bytes <= most_bytes:
                chosen.append(entry[2])
                freed_bytes += page.size_bytes
        self._push_back(seen)
        return chosen if freed_bytes >= needed_bytes else []

    def _pop(self) -> tuple[float, int, K]:
        entry = self._pop_below(float("inf"))
        if entry is None:
            raise AssertionError("room is to be made in a portion that is empty")
        return entry

    def _pop_below(self, value: float) -> tuple[float, int, K] | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            page = self.pages.get(entry[2])
            if page is not None and page.set_at == entry[1]:
                return heapq.heappop(heap) if entry[0] < value else None
            heapq.heappop(heap)
        return None

    def _push_back(self, entries: list[tuple[float, int, K]]) -> None:
        for entry in entries:
            heapq.heappush(self._heap, entry)
