"""Good prices for room: high where more than the budget would be held, low where less would.

Any prices give a valid bound, so nothing here has to be exact. Prices are constant in bins of
arrivals; each bin moves by its own step, which shrinks when it overshoots. Fine bins begin with the
best coarse prices, so that finer bins never give a worse bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tocsin.lab.bounds.demand import Floats, Ints

LEVELS = (1, 16, 128, 1024)  # bins; each number divides the next
ROUNDS = (8, 6, 6, 14)  # at most
IDLE = 1e-5  # two rounds that lower the bound by a smaller part end a level


class Relaxed(Protocol):
    """A problem whose parts no longer compete for room once it has a price."""

    budget_bytes: int
    leaves: Ints  # what is bought at the last prices
    held_bytes: Floats  # and how many bytes that is, by arrival

    @property
    def arrivals(self) -> int: ...

    def bound(self, price: Floats) -> float: ...


@dataclass(frozen=True)
class Priced:
    """The lowest bound found, its prices by arrival and what would be bought at them."""

    bound: float
    price: Floats
    leaves: Ints


def best_prices(
    relaxation: Relaxed,
    *,
    bins: int = LEVELS[-1],
    progress: Callable[[float], None] = lambda part: None,
) -> Priced:
    """Up to so many bins; `progress` is told the part that is done."""
    arrivals = relaxation.arrivals
    found = Priced(
        relaxation.bound(np.zeros(arrivals)), np.zeros(arrivals), relaxation.leaves.copy()
    )
    budget_bytes = relaxation.budget_bytes
    if not arrivals or relaxation.held_bytes.max() <= budget_bytes:
        return found  # all that is wanted has room: no bound can be lower
    # At this price the budget alone costs all there is to earn: more is never good.
    highest = found.bound / (budget_bytes * arrivals)
    best = np.full(1, highest / 10)
    for number, (level, rounds) in enumerate(zip(LEVELS, ROUNDS, strict=True)):
        if level > bins:
            break
        bin_of = np.arange(arrivals) * level // arrivals
        filled = np.maximum(np.bincount(bin_of, minlength=level), 1)
        price = best = best[np.arange(level) * len(best) // level]
        lowest, idle = np.inf, 0
        step, before = np.full(level, 0.5), np.zeros(level)
        for turn in range(rounds):
            by_arrival = price[bin_of]
            bound = relaxation.bound(by_arrival)
            idle = 0 if bound < lowest * (1 - IDLE) else idle + 1
            if bound < lowest:
                lowest, best = bound, price
            if bound < found.bound:
                found = Priced(bound, by_arrival, relaxation.leaves.copy())
            held = np.bincount(bin_of, relaxation.held_bytes, minlength=level) / filled
            excess = np.log(np.clip(held / budget_bytes, 0.05, 20.0))
            step = np.clip(np.where(excess * before < 0, step * 0.5, step * 1.3), 0.02, 1.0)
            before = excess
            price = np.minimum(price * np.exp(step * excess), highest * arrivals)
            progress((sum(ROUNDS[:number]) + turn + 1) / sum(ROUNDS))
            if idle == 2:
                break
        if level >= arrivals:
            break
    return found
