"""The most that can be admitted with so many bytes: a knapsack.

A record is worth the deliveries it saves the database, and costs what its admission writes: a
copy for each consumer, or one copy and a reference for each. The fractional solution is the
limit, and taking whole records in the same order comes within one record of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.lab.bounds.interval import ROUNDING, Interval
from tocsin.lab.simulators.consumer_logs import Logs
from tocsin.lab.workloads.offers import Offers


def best_for_bytes(offers: Offers, logs: Logs, budget_bytes: int) -> Interval:
    """Deliveries that the best choice of records saves, if nothing ever leaves a log."""
    return knapsack(offers.waiting, costs_bytes(offers, logs), budget_bytes)


def costs_bytes(offers: Offers, logs: Logs) -> NDArray[np.int64]:
    """What the admission of each record writes."""
    if logs.layout == "shared":
        return offers.size_bytes + offers.waiting * logs.reference_bytes
    return offers.size_bytes * offers.waiting


def knapsack(worth: NDArray[np.int64], cost: NDArray[np.int64], budget: int) -> Interval:
    """Worth and cost are whole and positive, except of what is worth nothing."""
    wanted = worth > 0
    worth, cost = worth[wanted], cost[wanted]
    order = np.argsort(-worth / cost, kind="stable")
    worth, cost = worth[order], cost[order]
    spent = np.cumsum(cost)
    whole = int(np.searchsorted(spent, budget, side="right"))
    sure = int(worth[:whole].sum())
    if whole == len(worth):
        return Interval(sure, sure)
    left = budget - (int(spent[whole - 1]) if whole else 0)
    limit = (sure + worth[whole] * left / cost[whole]) * (1 + ROUNDING)
    reached = sure
    for value, price in zip(worth[whole:].tolist(), cost[whole:].tolist(), strict=True):
        if price <= left:
            left -= price
            reached += value
        if not left:
            break
    alone = worth[cost <= budget]
    return Interval(max(reached, int(alone.max()) if len(alone) else 0), float(limit))
