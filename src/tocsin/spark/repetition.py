"""When repetitive channels are due. Pure: `now` is passed in, threads live elsewhere.

A channel that still runs at its next tick is not started a second time: the tick is counted as an
overrun, and the run at the tick after it covers the longer window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class _Entry:
    period_s: float
    anchor_at: float
    next_at: float
    running: bool = False
    missed: int = 0


class Schedule:
    """Ticks at `anchor + k · period` for each channel."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add(self, name: str, period_s: float, anchor_at: float, now: float) -> None:
        entry = _Entry(period_s, anchor_at, anchor_at)
        entry.next_at = _tick_after(entry, now)
        self._entries[name] = entry

    def remove(self, name: str) -> None:
        self._entries.pop(name, None)

    def due(self, now: float) -> list[str]:
        """Channels to start now; they count as running until `finished`."""
        starting = []
        for name, entry in self._entries.items():
            if entry.next_at - now > entry.period_s:  # the clock was set back
                entry.next_at = _tick_after(entry, now)
            if now < entry.next_at:
                continue
            passed = 1 + math.floor((now - entry.next_at) / entry.period_s)
            entry.next_at = _tick_after(entry, now)
            if entry.running:
                entry.missed += passed
            else:
                entry.missed += passed - 1
                entry.running = True
                starting.append(name)
        return starting

    def finished(self, name: str) -> int:
        """The run is over; returns how many ticks passed without a run since the last call."""
        entry = self._entries.get(name)
        if entry is None:
            return 0
        entry.running = False
        missed, entry.missed = entry.missed, 0
        return missed

    def next_at(self) -> float | None:
        return min((entry.next_at for entry in self._entries.values()), default=None)


def _tick_after(entry: _Entry, now: float) -> float:
    """Also before the anchor: a clock that was set back must not keep a channel waiting for it."""
    ticks = math.floor((now - entry.anchor_at) / entry.period_s) + 1
    return entry.anchor_at + ticks * entry.period_s
