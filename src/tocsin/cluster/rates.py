"""How fast subjects go: token buckets, of which each holds what a second brings.

A bucket is one number: the time until when it lacks something. What costs more than a whole bucket
is let through by a full one, and is paid off before anything else: nobody is refused for ever.
Times and costs are whole nanoseconds, and are given. Knows no clock, and not how fast anybody may
go.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tocsin.model import QuotaName

SECOND = 1_000_000_000
SWEEP_EVERY = 60 * SECOND


def cost(amount: int, per_second: int) -> int:
    """For how long a bucket that fills so fast lacks what was taken."""
    return -(-amount * SECOND // per_second)


def wait(full_at: int, wanted: int, now: int) -> int:
    """How long until a bucket lets so much through; 0: it does now."""
    return max(0, max(full_at, now) + min(wanted, SECOND) - SECOND - now)


class Refused(Struct, frozen=True):
    """What there was too much of, and how long until there is room for it."""

    name: QuotaName
    wait: int


class Rates:
    def __init__(self) -> None:
        self._full_at: dict[tuple[str, QuotaName], int] = {}
        self._swept_at = 0

    def __len__(self) -> int:
        return len(self._full_at)

    def refused(self, subject: str, costs: Mapping[QuotaName, int], now: int) -> Refused | None:
        """Which of the subject's buckets has the least room for this; None: all let it through."""
        waits = [
            Refused(name, wait(self._full_at.get((subject, name), now), wanted, now))
            for name, wanted in costs.items()
        ]
        longest = max(waits, key=lambda refused: refused.wait, default=None)
        return longest if longest is not None and longest.wait else None

    def take(self, subject: str, costs: Mapping[QuotaName, int], now: int) -> Refused | None:
        """Take it out of all of these buckets, or, if one refuses, out of none."""
        refused = self.refused(subject, costs, now)
        if refused is None:
            self._sweep(now)
            for name, wanted in costs.items():
                full_at = self._full_at.get((subject, name), now)
                self._full_at[subject, name] = max(full_at, now) + wanted
        return refused

    def _sweep(self, now: int) -> None:
        """Full buckets are like new ones."""
        if now - self._swept_at >= SWEEP_EVERY:
            self._swept_at = now
            self._full_at = {key: at for key, at in self._full_at.items() if at > now}
