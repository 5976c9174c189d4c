"""A page policy that keeps state, at work in a cache: its state, and what it is told of pages.

All pages that were heard of are told of, those in the cache or not. They come to an age in the
order in which they were first heard of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from tocsin.caching.page_cache.portion import NEVER, Held
from tocsin.policies.page import Event, PagePolicy
from tocsin.policies.registry import bound

K = TypeVar("K", bound=Hashable)
_FAR = 2**62


class Observer(Generic[K]):
    """It begins with what the cache knows of."""

    def __init__(self, policy: PagePolicy, pages: dict[K, Held], operation: int) -> None:
        assert policy.state is not None
        self.policy = policy
        self.state = policy.state()
        self._begin = self._bound(policy.begin)
        self._observe = self._bound(policy.observe)
        self._ages: list[deque[tuple[K, Held]]] = [deque() for _ in policy.ages]
        self._due = _FAR  # the operation when the next page comes to an age
        for key, page in sorted(pages.items(), key=lambda item: item[1].born_at):
            if page.born_at != NEVER:
                self.born(key, page, operation)

    def is_of(self, policy: PagePolicy) -> bool:
        mine = self.policy
        return (mine.state, mine.observe, mine.values) == (
            policy.state,
            policy.observe,
            policy.values,
        )

    def frequency(self, frequency: Callable[..., float]) -> Callable[..., float]:
        """That of a rule, as portions call it."""
        return bound(frequency, self.state, self.policy.values)

    def _bound(self, function: Callable[..., None] | None) -> Callable[..., None]:
        return _ignore if function is None else bound(function, self.state, self.policy.values)

    def begin(self, operation: int) -> Iterator[tuple[K, Held]]:
        """An operation begins; pages that have come to their next age with it."""
        self._begin(operation)
        if operation < self._due:
            return
        self._due = _FAR
        for age, pages in enumerate(self._ages):
            end = self.policy.ages[age]
            while pages and operation >= pages[0][1].born_at + end:
                key, page = pages.popleft()
                if page.born_at != NEVER:
                    page.age = age + 1
                    self._observe(page, Event.OLDER, 0, operation)
                    self._follow(key, page)
                    yield key, page
            if pages:
                self._due = min(self._due, pages[0][1].born_at + end)

    def born(self, key: K, page: Held, operation: int) -> None:
        """Follow a page, from its first operation on or from a later one."""
        page.age = sum(operation >= page.born_at + end for end in self.policy.ages)
        self._observe(page, Event.BORN, 0, operation)
        self._follow(key, page)

    def tell(self, page: Held, event: Event, operation: int, before: int = 0) -> None:
        """`before`: the subscriptions that a page had which is published again."""
        self._observe(page, event, before, operation)

    def _follow(self, key: K, page: Held) -> None:
        if page.age < len(self._ages):
            self._ages[page.age].append((key, page))
            self._due = min(self._due, page.born_at + self.policy.ages[page.age])


def _ignore(*observed: Any) -> None:
    return None
