"""All subscriptions of a broker, compared page by page: which of those that were here are past."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator


class Loading:
    """`sequence`: of the first page: what changed at the cluster since is news. `here`: what this
    broker served when it was asked for."""

    def __init__(self, sequence: int, here: Iterable[int]) -> None:
        self.sequence = sequence
        self._here = deque(sorted(here))

    def passed(self, upto: int | None) -> Iterator[int]:
        """The next of those that were here, up to a number or all: pages say which are left."""
        while self._here and (upto is None or self._here[0] <= upto):
            yield self._here.popleft()
