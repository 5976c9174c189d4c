"""Good prices for room: high where more than the budget would be held, low where less would.

Any prices give a valid bound, so nothing here has to be exact. Prices are constant in bins of
arrivals; each bin moves by its own step, which shrinks when it overshoots. Fine bins begin with the
best coarse prices, so that finer bins never give a worse bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    selected: Ints  # what is bought at the last prices
    held_bytes: Floats  # and how many bytes that is, by arrival

    @property
    def arrivals(self) -> int: ...

    def bound(self, price: Floats) -> float: ...


@dataclass(frozen=True)
class Priced:
    """A bound, its prices by arrival and what would be bought at them."""

    bound: float
    price: Floats
    selected: Ints


def best_prices(
    relaxation: Relaxed,
    *,
    bins: int = LEVELS[-1],
    progress: Callable[[float], None] = lambda part: None,
) -> Priced:
    """Up to so many bins; `progress` is called with the part that is done."""
    arrivals = relaxation.arrivals
    free = np.zeros(arrivals)
    lowest = Priced(relaxation.bound(free), free, relaxation.selected.copy())
    if not arrivals or relaxation.held_bytes.max() <= relaxation.budget_bytes:
        return lowest  # all that is wanted has room: no bound can be lower
    # At this price the budget alone costs all there is to earn: more is never good.
    highest = lowest.bound / (relaxation.budget_bytes * arrivals)
    best = np.full(1, highest / 10)
    for number, (level, rounds) in enumerate(zip(LEVELS, ROUNDS, strict=True)):
        if level > bins:
            break
        coarse = best[np.arange(level) * len(best) // level]
        rounds_before = sum(ROUNDS[:number])
        for turn, (price, priced) in enumerate(_refined(relaxation, coarse, highest, rounds)):
            best = price
            if priced.bound < lowest.bound:
                lowest = priced
            progress((rounds_before + turn + 1) / sum(ROUNDS))
        if level >= arrivals:
            break
    return lowest


def _refined(
    relaxation: Relaxed, price: Floats, highest: float, rounds: int
) -> Iterator[tuple[Floats, Priced]]:
    """Prices in so many bins, round by round: the best so far, and what this round gave."""
    arrivals, level = relaxation.arrivals, len(price)
    bin_of = np.arange(arrivals) * level // arrivals
    filled = np.maximum(np.bincount(bin_of, minlength=level), 1)
    best, lowest, idle = price, np.inf, 0
    step, before = np.full(level, 0.5), np.zeros(level)
    for _ in range(rounds):
        by_arrival = price[bin_of]
        bound = relaxation.bound(by_arrival)
        idle = 0 if bound < lowest * (1 - IDLE) else idle + 1
        if bound < lowest:
            lowest, best = bound, price
        yield best, Priced(bound, by_arrival, relaxation.selected.copy())
        held = np.bincount(bin_of, relaxation.held_bytes, minlength=level) / filled
        excess = np.log(np.clip(held / relaxation.budget_bytes, 0.05, 20.0))
        step = np.clip(np.where(excess * before < 0, step * 0.5, step * 1.3), 0.02, 1.0)
        before = excess
        price = np.minimum(price * np.exp(step * excess), highest * arrivals)
        if idle == 2:
            break
