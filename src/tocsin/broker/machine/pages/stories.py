"""Which page is the newest version of a story. Pure.

Equal bytes are one page, so that a page may belong to several stories, or come back to one that had
it before: it is uninteresting only while it is the newest of none. Backend subscriptions are read
one after the other, so that an older version may be heard of after a newer one: results tell when
they were made.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import NamedTuple


class Version(NamedTuple):
    made_at: float
    page: str


class Stories:
    def __init__(self, most: int) -> None:
        self._most = most
        self._newest: OrderedDict[Hashable, Version] = OrderedDict()
        self._of: Counter[str] = Counter()  # page -> stories that it is the newest version of

    def tell(self, story: Hashable, page: str, made_at: float) -> str | None:
        """A page that is no story's newest any more, because of this."""
        before = self._newest.get(story)
        if before is not None and made_at < before.made_at:
            return page if page not in self._of else None
        self._newest[story] = Version(made_at, page)
        self._newest.move_to_end(story)
        self._of[page] += 1
        if before is None:
            if len(self._newest) > self._most:  # what became of that one is never heard
                self._leave(self._newest.popitem(last=False)[1].page)
            return None
        return before.page if self._leave(before.page) else None

    def _leave(self, page: str) -> bool:
        """Is it no story's newest now?"""
        self._of[page] -= 1
        if self._of[page]:
            return False
        del self._of[page]
        return True
