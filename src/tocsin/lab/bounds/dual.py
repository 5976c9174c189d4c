"""The outer end: a price for room, and what each backend subscription would buy at it.

Let an object that is in the cache at an arrival, the arriving one too, pay `price[arrival]` for
each of its bytes, and let each backend subscription choose its best schedule, budget or no budget.
A schedule that keeps the budget pays no more than budget · Σ price in total, so

    value of any feasible schedule ≤ Σ over backends max(value − payment) + budget · Σ price

for whatever prices ≥ 0 (weak duality). Arrivals are all the moments that need a price: content
grows at no other.

The maximum of one backend subscription is exact, under the rule that a cache holds a contiguous
newest suffix: leaving times then never fall from one object to the next, so all that a newer
object must know of the older ones is a running maximum over their leaving times.

This module must not know how prices are found, nor what a value means.
"""

from __future__ import annotations

import numpy as np

from tocsin.lab.bounds.demand import Demand, Floats, Ints
from tocsin.lab.bounds.goals import Goal
from tocsin.lab.jit.functions import compiled


class Relaxation:
    """The relaxed problem of one workload, goal and budget, with its working memory."""

    def __init__(self, demand: Demand, goal: Goal, budget_bytes: int) -> None:
        self.demand = demand
        self.goal = goal
        self.budget_bytes = budget_bytes
        # What the last prices made of it:
        self.selected = np.zeros(demand.objects, np.int32)
        self.held_bytes = np.zeros(demand.objects)
        self._change_bytes = np.zeros(demand.objects + 1)
        self._choice = np.zeros(_most_choices(demand), np.int32)

    @property
    def arrivals(self) -> int:
        return self.demand.objects

    def bound(self, price: Floats) -> float:
        """No feasible schedule has a higher value. `price` is by arrival, none of them negative."""
        paid = paid_before(price)
        bought = _buy(
            self.demand,
            self.goal,
            self.budget_bytes,
            paid,
            self.selected,
            self._change_bytes,
            self._choice,
        )
        self.held_bytes = np.cumsum(self._change_bytes[:-1])
        return bought + self.budget_bytes * float(paid[-1])


def paid_before(price: Floats) -> Floats:
    """What a byte that is always there has paid before each arrival, and at the end."""
    return np.concatenate(([0.0], np.cumsum(price)))


@compiled
def _most_choices(demand: Demand) -> int:
    """How many (object, leaving time) pairs the largest backend subscription has."""
    most = 0
    for backend in range(demand.first_object.shape[0] - 1):
        choices = 0
        for item in range(demand.first_object[backend], demand.first_object[backend + 1]):
            choices += demand.last_get[item] - demand.next_get[item] + 2
        most = max(most, choices)
    return most


@compiled
def _buy(
    demand: Demand,
    goal: Goal,
    budget_bytes: int,
    paid: Floats,
    selected: Ints,
    change_bytes: Floats,
    choice: Ints,
) -> float:
    """The sum of the best (value − payment), each backend subscription for itself.

    An object that leaves after get c serves c and pays for the arrivals before c only.
    `selected` receives c for each object; next_get − 1 stands for leaving at once, after those who
    are online took it, and next_get − 2 for never being admitted.
    """
    change_bytes[:] = 0.0
    total = 0.0
    for backend in range(demand.first_object.shape[0] - 1):
        start, end = demand.first_object[backend], demand.first_object[backend + 1]
        first_get = demand.first_get[backend]
        gets = demand.first_get[backend + 1] - first_get
        due = np.empty(gets)
        for get in range(gets):
            due[get] = paid[demand.arrivals_before[first_get + get]]
        # best[c + 1]: the best sum of the objects so far if all of them have left after get c or
        # earlier. From `known` on it stays the same.
        best = np.zeros(gets + 1)
        known = 0
        stop = np.empty(end - start, np.int64)
        bypassed = np.zeros(end - start, np.bool_)
        offset = 0
        for item in range(start, end):
            place = item - start
            size = demand.size_bytes[item]
            worth = goal.worth[item]
            low, high = demand.next_get[item], demand.last_get[item]
            while known < low:
                best[known + 1] = best[known]
                known += 1
            older = best[known]
            before = paid[demand.rank[item]]
            value = demand.online[item] * (worth + goal.bonus)
            top = best[low]  # all older ones leave before it comes
            at_once = value - size * (paid[demand.rank[item] + 1] - before)
            if size > budget_bytes:
                high = low - 1
                bypassed[place] = True
            elif at_once < 0.0:
                bypassed[place] = True
            else:
                top += at_once
            # To stay so long that all it and the older ones can earn does not pay for it is idle.
            most = value + demand.later[item] * worth + demand.oldest[item] * goal.bonus
            limit = size * before + most + older - top
            net = value + size * before
            best[low] = top
            chosen = low - 1
            choice[offset] = chosen
            offset += 1
            get = low
            while get <= high and size * due[get] <= limit:
                begin = demand.mark[first_get + get]
                if begin <= place:
                    net += worth
                    if begin == place:
                        net += goal.bonus
                if get >= known:
                    best[get + 1] = older
                gain = best[get + 1] + net - size * due[get]
                if gain > top:
                    top = gain
                    chosen = get
                best[get + 1] = top
                choice[offset] = chosen
                offset += 1
                get += 1
            known = get
            stop[place] = get - 1
        total += best[known]
        leave = known - 1
        for item in range(end - 1, start - 1, -1):
            size = demand.size_bytes[item]
            low = demand.next_get[item]
            last = stop[item - start]
            offset -= last - low + 2
            leave = choice[offset + min(leave, last) - low + 1]
            selected[item] = leave
            if leave >= low:
                change_bytes[demand.rank[item]] += size
                change_bytes[demand.arrivals_before[first_get + leave]] -= size
            elif bypassed[item - start]:
                selected[item] = low - 2
            else:
                change_bytes[demand.rank[item]] += size
                change_bytes[demand.rank[item] + 1] -= size
    return total
