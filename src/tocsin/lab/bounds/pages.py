"""How many hits a page cache could have that knows the future, as an interval.

A page can be placed when it is published, if a subscription matches it, and whenever it is
requested (delivery 2). From one of its events to its next request it *stays* in the cache or it
does not, and that alone decides whether the request is a hit. Stays compete for the bytes of the
cache in the moments between events.

- **limit**: a price for a byte in each moment, as in `dual`. At given prices each stay is for
  itself: it is worth a hit, and pays for its bytes as long as it lasts. The sum of what is left to
  those that gain, and the price of the whole cache, is no less than the hits of any choice.
- **reached**: stays are chosen one after the other, the cheapest at these prices first, if all of
  their moments have room.

What is superseded may stay in the limit; in what is reached it does not, once it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.lab.bounds.demand import Floats, Ints, Longs
from tocsin.lab.bounds.interval import ROUNDING, Interval
from tocsin.lab.bounds.prices import best_prices
from tocsin.lab.jit.functions import compiled
from tocsin.lab.workloads.pages.operations import PUBLISH, RENEWED, SUPERSEDED, Operations


class Stays(NamedTuple):
    """From after the operation `begin` until the operation `end`, which is a request."""

    begin: Longs
    end: Longs
    size_bytes: Longs
    outdated: Ints  # 1: meanwhile a newer version is there


def stays_of(operations: Operations) -> Stays:
    columns = np.zeros((4, operations.requests), np.int64)
    count = _find(
        operations.kind.astype(np.int32),
        operations.page,
        operations.size_bytes,
        operations.subscriptions,
        np.full(operations.pages, -1),
        np.zeros(operations.pages, np.int64),
        columns,
    )
    begin, end, size_bytes, outdated = columns[:, :count]
    return Stays(begin, end, size_bytes, outdated.astype(np.int32))


class PageRelaxation:
    """The relaxed problem of one cache."""

    def __init__(self, stays: Stays, moments: int, budget_bytes: int) -> None:
        self.stays = stays
        self.arrivals = moments
        self.budget_bytes = budget_bytes
        # What the last prices made of it:
        self.selected = np.zeros(len(stays.begin), np.int32)  # 1: it would stay
        self.held_bytes = np.zeros(moments)
        self._change_bytes = np.zeros(moments + 1)

    def bound(self, price: Floats) -> float:
        paid = np.concatenate(([0.0], np.cumsum(price)))
        bought = _buy(self.stays, self.budget_bytes, paid, self.selected, self._change_bytes)
        self.held_bytes = np.cumsum(self._change_bytes[:-1])
        return bought + self.budget_bytes * float(paid[-1])


def certify_pages(operations: Operations, budget_bytes: int) -> Interval:
    """Hits that can be reached, and that nobody passes."""
    stays = stays_of(operations)
    relaxation = PageRelaxation(stays, len(operations), budget_bytes)
    fitting = int((stays.size_bytes <= budget_bytes).sum())
    if budget_bytes == 0 or fitting == 0:
        return Interval(0.0, 0.0)
    priced = best_prices(relaxation)
    limit = min(priced.bound * (1 + ROUNDING), float(fitting))
    paid = np.concatenate(([0.0], np.cumsum(priced.price)))
    cost = stays.size_bytes * (paid[stays.end] - paid[stays.begin])
    span = stays.size_bytes * (stays.end - stays.begin)
    order = np.lexsort((span, cost))
    chosen = _choose(stays, budget_bytes, order, np.zeros(len(operations)))
    # Hits are whole numbers.
    return Interval(float(chosen), float(np.floor(limit)))


@compiled
def _find(
    kind: NDArray[np.uint8], page: Ints, size_bytes: Longs, subscriptions: Ints, since: Longs,
    old: Longs, columns: Longs,
) -> int:  # fmt: skip
    """`since` is when a page could last be placed, -1 if never; `old` is up to when it was
    superseded."""
    count = 0
    for now in range(kind.shape[0]):
        current = page[now]
        if kind[now] == SUPERSEDED:
            old[current] = kind.shape[0]
        elif kind[now] == RENEWED:
            old[current] = min(old[current], now)
        elif kind[now] == PUBLISH:
            if subscriptions[now] > 0:
                since[current] = now
        else:
            if since[current] >= 0:
                columns[0, count] = since[current]
                columns[1, count] = now
                columns[2, count] = size_bytes[now]
                columns[3, count] = old[current] > since[current]
                count += 1
            since[current] = now
    return count


@compiled
def _buy(
    stays: Stays, budget_bytes: int, paid: Floats, chosen: Ints, change_bytes: Floats
) -> float:
    change_bytes[:] = 0.0
    total = 0.0
    for stay in range(stays.begin.shape[0]):
        begin, end, size = stays.begin[stay], stays.end[stay], stays.size_bytes[stay]
        gain = 1.0 - size * (paid[end] - paid[begin])
        chosen[stay] = size <= budget_bytes and gain > 0.0
        if chosen[stay]:
            total += gain
            change_bytes[begin] += size
            change_bytes[end] -= size
    return total


@compiled
def _choose(stays: Stays, budget_bytes: int, order: Longs, held: Floats) -> int:
    """How many stays have room."""
    count = 0
    for stay in order:
        size = stays.size_bytes[stay]
        begin, end = stays.begin[stay], stays.end[stay]
        room = budget_bytes - size
        fits = room >= 0 and stays.outdated[stay] == 0
        moment = begin
        while fits and moment < end:
            fits = held[moment] <= room
            moment += 1
        if fits:
            for moment in range(begin, end):
                held[moment] += size
            count += 1
    return count
