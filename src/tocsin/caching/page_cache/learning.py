"""What a page cache learns of its pages, for policies that ask for it: how old they are, and what
became of others that were as old.

All pages that were heard of teach, those in the cache or not. They come to an age in the order in
which they were first heard of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from tocsin.caching.page_cache.portion import Held
from tocsin.policies.page import assay

K = TypeVar("K", bound=Hashable)
NEVER = 2**62


class Learner(Generic[K]):
    """It begins with what the cache knows of."""

    def __init__(self, pages: dict[K, Held], operation: int) -> None:
        self._known = assay.new_knowledge()
        self._ages: list[deque[tuple[K, Held]]] = [deque() for _ in range(assay.AGES - 1)]
        self._due = NEVER  # the operation when the next page comes to an age
        for key, page in sorted(pages.items(), key=lambda one: one[1].born_at):
            if page.born_at >= 0:
                self.begins(key, page, operation)

    def frequency(self, page: Held) -> float:
        """f of equation 1, without its L."""
        return assay.expected(
            self._known, page.age, page.group, page.weight, page.notified, page.browsed
        )

    def older(self, operation: int) -> Iterator[tuple[K, Held]]:
        """An operation begins; pages that have come to their next age with it."""
        assay.looks(self._known, operation)
        if operation < self._due:
            return
        self._due = NEVER
        for age, pages in enumerate(self._ages):
            end = assay.ENDS[age]
            while pages and operation >= pages[0][1].born_at + end:
                key, page = pages.popleft()
                if not page.forgotten:
                    self._pass_on(key, page, operation)
                    yield key, page
            if pages:
                self._due = min(self._due, pages[0][1].born_at + end)

    def _pass_on(self, key: K, page: Held, operation: int) -> None:
        age, group, weight = page.age, page.group, page.weight
        assay.surprises(self._known, age, group, weight, page.browsed)
        assay.moves(self._known, age, group, -weight, operation)
        assay.moves(self._known, age + 1, group, weight, operation)
        page.age = age + 1
        if page.age < len(self._ages):
            self._ages[page.age].append((key, page))

    def begins(self, key: K, page: Held, operation: int) -> None:
        """Follow a page, from its first operation on or from a later one."""
        page.age = sum(operation >= page.born_at + end for end in assay.ENDS)
        self.published(page, operation)
        if page.age < len(self._ages):
            self._ages[page.age].append((key, page))
            self._due = min(self._due, page.born_at + assay.ENDS[page.age])

    def published(self, page: Held, operation: int) -> None:
        """Its subscriptions are known now, or other ones."""
        assay.moves(self._known, page.age, page.group, -page.weight, operation)
        page.group = assay.group_of(page.subscriptions)
        page.weight = max(1, page.subscriptions)
        assay.moves(self._known, page.age, page.group, page.weight, operation)

    def asked(self, page: Held, notification: bool) -> None:
        kind = assay.NOTIFIED if notification else assay.BROWSED
        self._known.asked[page.age, page.group, kind] += 1

    def gone(self, page: Held, operation: int) -> None:
        assay.moves(self._known, page.age, page.group, -page.weight, operation)
        page.forgotten = True
