"""Which backend subscriptions came and went lately, per channel, so that Spark's table of
parameter sets is refreshed by what changed. In memory only: after a restart the reader begins
with the whole table. Knows no database.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from threading import Lock

from tocsin.model import Arguments, BackendSubscription

ParameterChanges = tuple[int, list[tuple[int, Arguments]], list[int]]
"""The version now, the backend subscriptions added, and the ids of those removed."""


class ParameterJournal:
    """A channel's version is the store's sequence at its last change."""

    def __init__(self, start: int, capacity: int = 200_000) -> None:
        self._start = start
        self._capacity = capacity
        self._lock = Lock()
        self._changes: dict[str, deque[tuple[int, int, Arguments | None]]] = {}
        self._forgotten: dict[str, int] = {}

    def record(self, channel: str, version: int, backend: int, added: Arguments | None) -> None:
        """Note that a backend subscription came with its arguments, or went (None)."""
        with self._lock:
            changes = self._changes.setdefault(channel, deque())
            changes.append((version, backend, added))
            while len(changes) > self._capacity:
                self._forgotten[channel] = changes.popleft()[0]

    def record_new(self, version: int, backends: Iterable[BackendSubscription]) -> None:
        """Note that these came."""
        for backend in backends:
            self.record(backend.channel, version, backend.id, backend.arguments)

    def version(self, channel: str) -> int:
        with self._lock:
            return self._version(channel)

    def since(self, channel: str, version: int) -> ParameterChanges | None:
        """What changed after that version; None when it does not reach back so far."""
        with self._lock:
            now = self._version(channel)
            if not self._forgotten.get(channel, self._start) <= version <= now:
                return None
            added: dict[int, Arguments] = {}
            removed: list[int] = []
            newest_first = []
            for change in reversed(self._changes.get(channel, ())):
                if change[0] <= version:
                    break
                newest_first.append(change)
            for _, backend, arguments in reversed(newest_first):
                if arguments is not None:
                    added[backend] = arguments
                elif added.pop(backend, None) is None:
                    removed.append(backend)
            return now, list(added.items()), removed

    def _version(self, channel: str) -> int:
        changes = self._changes.get(channel)
        return changes[-1][0] if changes else self._start
