"""Ways between processes that nothing passes for a while: in both directions, or in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tocsin.testing.simulation.agenda import Agenda

Way = tuple[str, str]
"""Who sends to whom."""


@dataclass
class Partitions:
    agenda: Agenda
    random: Random
    happened: Counter[str]
    _open_at: dict[Way, float] = field(default_factory=dict)

    def part(self, ends: Sequence[Way]) -> None:
        """A random way of these, for some seconds."""
        sender, receiver = self.random.choice(ends)
        ways = [(sender, receiver), (receiver, sender)]
        kind = self.random.choice(["one-way partition", "two-way partition"])
        if kind == "one-way partition":
            ways = [self.random.choice(ways)]
        self.happened[kind] += 1
        open_at = self.agenda.now + self.random.expovariate(0.5)
        self._open_at |= {way: max(open_at, self._open_at.get(way, 0.0)) for way in ways}

    def passes(self, sender: str, receiver: str) -> bool:
        return self.open_at(sender, receiver) <= self.agenda.now

    def open_at(self, sender: str, receiver: str) -> float:
        """What a connection carries is sent again until it passes."""
        return self._open_at.get((sender, receiver), 0.0)

    def heal(self) -> None:
        self._open_at.clear()
