"""Cuts of the log in use. While somebody holds one it is pinned: compaction keeps every version of
a row that the cut still shows. Channels that run at about the same time share one.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakSet

from tocsin.storage.log import Cut

SHARED_S = 10.0  # nobody takes up a cut that is older, so its pin goes


class Pinned:
    """A cut, pinned for as long as somebody holds this."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.made_at = 0.0  # by a clock that nobody sets


P = TypeVar("P", bound=Pinned)


class Pins(ABC, Generic[P]):
    """Thread-safe."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._newest: P | None = None
        self._pinned: WeakSet[P] = WeakSet()

    @abstractmethod
    def _of(self, cut: Cut) -> P:
        """What is made of a cut."""

    def take(self, cut: Callable[[], Cut]) -> P:
        """One of now. The cut and its pin are one step for `horizon`."""
        with self._lock:
            return self._take(cut)

    def recent(
        self,
        since_us: int,
        cut: Callable[[], Cut],
        serves: Callable[[Cut], bool] = lambda _: True,
    ) -> P:
        """One for a channel whose last one was of `since_us`: the newest, if it serves and is less
        than half as old as that, so that channels which run at about the same time share what they
        read; a new one otherwise."""
        with self._lock:
            now_us = round(self._clock() * 1e6)
            newest = self._shared()
            if newest is None or 2 * newest.cut.at_us < now_us + since_us or not serves(newest.cut):
                newest = self._newest = self._take(cut)
            return newest

    def horizon(self, name: str) -> int | None:
        """The lowest end at which somebody looks at the dataset; None: nobody does.

        A cut that is taken later lies behind every file that is there now.
        """
        with self._lock:
            self._shared()
            return min((pinned.cut.ends.get(name, 0) for pinned in self._pinned), default=None)

    def oldest_us(self) -> int | None:
        """When the oldest cut was taken at which somebody looks; None: nobody does."""
        with self._lock:
            self._shared()
            return min((pinned.cut.at_us for pinned in self._pinned), default=None)

    def _shared(self) -> P | None:
        """The newest, if it is not too old to be shared; by a clock that nobody sets back."""
        newest = self._newest
        if newest is not None and newest.made_at < self._monotonic() - SHARED_S:
            self._newest = None
        return self._newest

    def _take(self, cut: Callable[[], Cut]) -> P:
        pinned = self._of(cut())
        pinned.made_at = self._monotonic()
        self._pinned.add(pinned)
        return pinned
