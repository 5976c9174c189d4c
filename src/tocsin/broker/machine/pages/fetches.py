"""Pages on their way from the cluster: how many at once, and which first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from tocsin.broker.machine.effects import Asker, ServePage

FETCHES_AT_ONCE = 32
PUSHES_AT_ONCE = 4  # of these, those that nobody waits for


@dataclass(slots=True, eq=False)
class PageFetch:
    number: int
    page: str
    # Who waits for it or reads it, and whether a notification led there.
    askers: dict[Asker[ServePage], bool] = field(default_factory=dict)
    size_bytes: int | None = None  # None: the cluster has not answered yet
    over: bool = False  # nothing more comes, and it is still read


class FetchQueue:
    """Those that somebody asks for go before those that are pushed."""

    def __init__(self) -> None:
        self._asked: OrderedDict[int, PageFetch] = OrderedDict()
        self._pushed: OrderedDict[int, PageFetch] = OrderedDict()
        self._under_way: set[int] = set()
        self._pushing: set[int] = set()  # of these

    def add(self, fetch: PageFetch) -> None:
        self._pushed[fetch.number] = fetch

    def hasten(self, fetch: PageFetch) -> None:
        """Somebody asks for it."""
        if self._pushed.pop(fetch.number, None) is not None:
            self._asked[fetch.number] = fetch

    def remove(self, fetch: PageFetch) -> bool:
        """It is over, or nobody wants it. Was it under way?"""
        self._asked.pop(fetch.number, None)
        self._pushed.pop(fetch.number, None)
        self._pushing.discard(fetch.number)
        if fetch.number not in self._under_way:
            return False
        self._under_way.remove(fetch.number)
        return True

    def start(self) -> list[PageFetch]:
        """All that may begin now."""
        started = []
        while len(self._under_way) < FETCHES_AT_ONCE:
            if self._asked:
                number, fetch = self._asked.popitem(last=False)
            elif self._pushed and len(self._pushing) < PUSHES_AT_ONCE:
                number, fetch = self._pushed.popitem(last=False)
                self._pushing.add(number)
            else:
                break
            self._under_way.add(number)
            started.append(fetch)
        return started
