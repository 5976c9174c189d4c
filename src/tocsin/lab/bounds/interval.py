"""Where an optimum lies, certified from both sides."""

from __future__ import annotations

from msgspec import Struct

ROUNDING = 1e-9  # by this part bounds are widened: far more than their sums can be off


class Interval(Struct, frozen=True):
    """`reached` by a run that keeps the budget; no run that keeps it gets beyond `limit`."""

    reached: float
    limit: float

    @property
    def gap(self) -> float:
        return abs(self.limit - self.reached)
