"""The smallest of many scores that change often: a heap that is mended only when it is asked.

A change marks its key; the next question re-scores marked keys and skips entries that no longer
hold. So a thousand acknowledgements between two evictions cost one push, not a thousand.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Entry = tuple[float, float, int]
"""Score, then the fixed tie order: when the tail was cached, backend subscription id."""


class LazyHeap:
    def __init__(self, entry: Callable[[int], Entry | None]) -> None:
        self._entry = entry  # the entry of a key as it is now; None: it takes no part
        self._heap: list[Entry] = []
        self._live: dict[int, Entry] = {}
        self._marked: set[int] = set()

    def mark(self, key: int) -> None:
        self._marked.add(key)

    def smallest(self) -> Entry | None:
        if self._marked:
            self._mend()
        heap, live = self._heap, self._live
        while heap:
            least = heap[0]
            if live.get(least[2]) == least:
                return least
            heapq.heappop(heap)
        return None

    def _mend(self) -> None:
        for key in self._marked:
            entry = self._entry(key)
            if entry is None:
                self._live.pop(key, None)
            elif self._live.get(key) != entry:
                self._live[key] = entry
                heapq.heappush(self._heap, entry)
        self._marked.clear()
        if len(self._heap) > 2 * len(self._live) + 64:  # too many entries that no longer hold
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)
