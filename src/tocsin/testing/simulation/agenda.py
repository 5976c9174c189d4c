"""Virtual time: what is to happen, and when. Of two things at one moment, the one planned first."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

Action = Callable[[], Any]


class Agenda:
    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Action]] = []
        self._count = 0

    def at(self, at_s: float, do: Action) -> None:
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, do))

    def later(self, delay_s: float, do: Action) -> None:
        self.at(self.now + delay_s, do)

    def run(self, until: float = float("inf")) -> None:
        """Without an end: until there is nothing left to do. An action may run the agenda itself,
        to wait while everything else goes on."""
        while self._due and self._due[0][0] <= until:
            at_s, _, do = heapq.heappop(self._due)
            self.now = max(self.now, at_s)
            do()
        if until < float("inf"):
            self.now = max(self.now, until)
