"""The subscription table of a broker, for one dataset: who asks for what (overlay II).

For each neighbour it keeps the widest of all that anybody else asks for: that is what the neighbour
is to be told. Knows no links and no messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tocsin.overlay.filters import Filter, Record, overlap
from tocsin.overlay.filters.index import FilterIndex
from tocsin.overlay.filters.widest import Change, Widest

Holder = int | str
"""A client's subscription, or a neighbour."""


class Interest(Struct, frozen=True):
    """Who wants a record."""

    clients: list[int]
    neighbours: list[str]


class _Folded:
    """Changes one after the other, as one."""

    def __init__(self) -> None:
        self.come: dict[Filter, None] = {}
        self.gone: dict[Filter, None] = {}

    def add(self, change: Change) -> None:
        for filters, put, taken in (
            (change.come, self.come, self.gone),
            (change.gone, self.gone, self.come),
        ):
            for filter_ in filters:
                if filter_ in taken:
                    del taken[filter_]
                else:
                    put[filter_] = None

    @property
    def change(self) -> Change:
        return Change(tuple(self.come), tuple(self.gone))


class Tables:
    def __init__(self) -> None:
        self._index = FilterIndex()
        self._holders: dict[Filter, dict[Holder, None]] = {}
        self._asked: dict[Holder, dict[Filter, None]] = {}
        self._telling: dict[str, Widest] = {}

    def asked(self, holder: Holder) -> set[Filter]:
        """What somebody asks for."""
        return set(self._asked.get(holder, ()))

    def telling(self, neighbour: str) -> set[Filter]:
        """What a neighbour is to be told."""
        return set(self._telling.get(neighbour, ()))

    def asks(self, holder: Holder) -> bool:
        """Does somebody ask for anything?"""
        return holder in self._asked

    def link(self, neighbour: str) -> Change:
        """What the new neighbour is to be told first."""
        widest = self._telling[neighbour] = Widest()
        for filter_ in self._holders:
            widest.add(filter_)
        return Change(tuple(widest))

    def unlink(self, neighbour: str) -> dict[str, Change]:
        del self._telling[neighbour]
        return self.change(neighbour, gone=self._asked.get(neighbour, ()))

    def change(
        self, holder: Holder, come: Iterable[Filter] = (), gone: Iterable[Filter] = ()
    ) -> dict[str, Change]:
        """Somebody asks for more, and no longer for some; what neighbours are to be told of it."""
        folded: dict[str, _Folded] = {}
        for filter_ in come:
            for neighbour, change in self._hold(filter_, holder):
                folded.setdefault(neighbour, _Folded()).add(change)
        for filter_ in tuple(gone):
            for neighbour, change in self._release(filter_, holder):
                folded.setdefault(neighbour, _Folded()).add(change)
        combined = {neighbour: changes.change for neighbour, changes in folded.items()}
        return {neighbour: change for neighbour, change in combined.items() if change != Change()}

    def _hold(self, filter_: Filter, holder: Holder) -> list[tuple[str, Change]]:
        holders = self._holders.setdefault(filter_, {})
        if holder in holders:
            return []
        if not holders:
            self._index.add(filter_)
        changes = [
            (neighbour, widest.add(filter_))
            for neighbour, widest in self._telling.items()
            if neighbour != holder and not _others(holders, neighbour)
        ]
        holders[holder] = None
        self._asked.setdefault(holder, {})[filter_] = None
        return changes

    def _release(self, filter_: Filter, holder: Holder) -> list[tuple[str, Change]]:
        holders = self._holders.get(filter_, {})
        if holder not in holders:
            return []
        del holders[holder], self._asked[holder][filter_]
        if not self._asked[holder]:
            del self._asked[holder]
        if not holders:
            del self._holders[filter_]
            self._index.remove(filter_)
        return [
            (neighbour, widest.remove(filter_))
            for neighbour, widest in self._telling.items()
            if neighbour != holder and not _others(holders, neighbour)
        ]

    def interest(self, record: Record, besides: str | None = None) -> Interest:
        """Who wants a record, besides a neighbour it came from."""
        clients: list[int] = []
        neighbours: dict[str, None] = {}
        for filter_ in self._index.match(record):
            for holder in self._holders[filter_]:
                if isinstance(holder, int):
                    clients.append(holder)
                elif holder != besides:
                    neighbours[holder] = None
        return Interest(clients, list(neighbours))

    def wants(self, neighbour: str, filter_: Filter) -> bool:
        """May a neighbour want some of what the filter matches?"""
        return any(overlap(asked, filter_) for asked in self._asked.get(neighbour, ()))

    def clients_want(self, filter_: Filter) -> bool:
        return any(
            overlap(asked, filter_) and any(isinstance(holder, int) for holder in holders)
            for asked, holders in self._holders.items()
        )


def _others(holders: dict[Holder, None], neighbour: str) -> int:
    """How many besides the neighbour?"""
    return len(holders) - (neighbour in holders)
