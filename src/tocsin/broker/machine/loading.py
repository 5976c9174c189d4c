"""All subscriptions of a broker, compared page by page: which of those that were here are gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from tocsin.broker.machine.events import QueryToken
from tocsin.broker.machine.subscription_table import Frontend, SubscriptionTable


class Loading:
    """`sequence`: of the first page: what changed at the cluster since is news. `here`: what this
    broker served when it came."""

    def __init__(self, sequence: int, here: Iterable[int]) -> None:
        self.sequence = sequence
        self._here = deque(sorted(here))
        self._missing: list[tuple[int, QueryToken]] = []  # from the page that they would be on

    def take(self, listed: Collection[int], asked: QueryToken, upto: int | None) -> None:
        """The next page, which has all up to a number, or the rest."""
        while self._here and (upto is None or self._here[0] <= upto):
            number = self._here.popleft()
            if number not in listed:
                self._missing.append((number, asked))

    def gone(self, table: SubscriptionTable) -> list[Frontend]:
        """Those that are still here, and did not come again since their page was asked for."""
        return [
            frontend
            for number, asked in self._missing
            if (frontend := table.frontends.get(number)) is not None
            and frontend.attached < asked.event
        ]
