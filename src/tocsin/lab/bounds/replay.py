"""The inner end: a schedule that knows the future, run under the real rules.

A plan says after which get each object may leave, prices say what room is worth. When an arriving
object needs room, tails that their plan has given up go first, then those with the smallest
remaining value for the price of keeping them. Whatever plan and prices are, the run keeps the
budget at every moment and the contiguous newest suffix, so what it reaches can be reached.

This module must not know how plan and prices were found.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tocsin.lab.bounds.demand import Demand, Floats, Ints, Longs
from tocsin.lab.bounds.dual import paid_before
from tocsin.lab.bounds.goals import Goal
from tocsin.lab.jit.functions import compiled
from tocsin.lab.jit.heap import new_heap, place, precedes, remove

LOOK_AGAIN, GIVEN_UP, PLANNED = -1.0, 0.0, 1.0  # scores of tails; their standing breaks ties
GROUP = 4  # objects of one cache that are weighed together


class Reached(NamedTuple):
    """What a run did."""

    hits: int
    hit_bytes: int
    whole_gets: int  # gets that missed nothing
    cache_max_bytes: int


class _State(NamedTuple):
    """By backend subscription."""

    tail: Longs  # the oldest object in the cache; `newest` if it is empty
    newest: Longs  # the next object to arrive
    passed: Longs  # gets so far


def replay(demand: Demand, goal: Goal, budget_bytes: int, price: Floats, selected: Ints) -> Reached:
    """Run the plan `selected`; both it and the prices are as `Relaxation` has them."""
    paid = paid_before(price)
    backends = len(demand.first_object) - 1
    state = _State(*(np.zeros(backends, np.int64) for _ in range(3)))
    heap = new_heap(backends)
    counts = np.zeros(len(Reached._fields), np.int64)
    _run(demand, goal, budget_bytes, paid, selected, state, heap, counts)
    return Reached(*(int(count) for count in counts))


@compiled
def _standing(
    demand: Demand, goal: Goal, paid: Floats, backend: int, tail: int, end: int,
    passed: int, rank: int, at_once: float,
) -> float:  # fmt: skip
    """The most value per price that the objects tail … end − 1 give if kept until some get.

    Newer objects must stay as long as the tail does, and a large one can make it dear to keep a
    small tail: what counts is the smallest standing of the first, the first two, … objects.
    """
    start, first_get = demand.first_object[backend], demand.first_get[backend]
    now = paid[rank]
    least = np.inf
    size = 0
    hope = at_once
    for last in range(tail, end):
        size += demand.size_bytes[start + last]
        hope += demand.later[start + last] * goal.worth[start + last]
        hope += demand.oldest[start + last] * goal.bonus
        value = at_once
        cost = size * (paid[rank + 1] - now)
        standing = 0.0
        if value > 0.0:
            standing = value / cost if cost > 0.0 else np.inf
        for get in range(passed, demand.last_get[start + last] + 1):
            begin = demand.mark[first_get + get]
            for item in range(max(begin, tail), last + 1):
                value += goal.worth[start + item]
                if item == begin:
                    value += goal.bonus
            cost = size * (paid[demand.arrivals_before[first_get + get]] - now)
            if cost <= 0.0:
                standing = np.inf
                break
            if hope <= standing * cost:
                break
            standing = max(standing, value / cost)
        least = min(least, standing)
    return float(least)


@compiled
def _drop_tail(demand: Demand, state: _State, backend: int) -> int:
    item = demand.first_object[backend] + state.tail[backend]
    state.tail[backend] += 1
    return int(demand.size_bytes[item])


@compiled
def _look_again(state: _State, heap: Any, backend: int) -> None:
    """Its standing may have fallen. (By itself, as time goes by, it only rises.)"""
    entries, places, count = heap
    if state.tail[backend] == state.newest[backend]:
        remove(entries, places, count, backend)
    else:
        place(entries, places, count, backend, LOOK_AGAIN, 0.0)


@compiled
def _get(demand: Demand, state: _State, heap: Any, backend: int, counts: Longs) -> int:
    """Serve the next get of this backend subscription; the bytes that nobody needs any more."""
    start = demand.first_object[backend]
    begin = demand.mark[demand.first_get[backend] + state.passed[backend]]
    newest = state.newest[backend]
    hit = max(begin, state.tail[backend])
    counts[0] += newest - hit
    counts[1] += demand.upto_bytes[start + newest] - demand.upto_bytes[start + hit]
    if hit == begin:
        counts[2] += 1
    state.passed[backend] += 1
    freed = 0
    while (
        state.tail[backend] < newest
        and demand.last_get[start + state.tail[backend]] < state.passed[backend]
    ):
        freed += _drop_tail(demand, state, backend)
    _look_again(state, heap, backend)
    return freed


@compiled
def _make_room(
    demand: Demand, goal: Goal, paid: Floats, selected: Ints, state: _State, heap: Any,
    rank: int, needed_bytes: int,
) -> int:  # fmt: skip
    """Drop tails for the object that arrives; the bytes freed, too few if it is the least."""
    entries, places, count = heap
    arriving = demand.arrival_backend[rank]
    item = demand.first_object[arriving] + state.newest[arriving]
    own_score = PLANNED if selected[item] >= demand.next_get[item] - 1 else GIVEN_UP
    own = -1.0
    freed = 0
    while freed < needed_bytes and count[0] > 0:
        victim = entries[0].key
        tail = state.tail[victim]
        end = min(state.newest[victim], tail + GROUP)
        passed = state.passed[victim]
        standing = _standing(demand, goal, paid, victim, tail, end, passed, rank, 0.0)
        planned = selected[demand.first_object[victim] + tail] >= passed
        score = PLANNED if planned else GIVEN_UP
        place(entries, places, count, victim, score, standing)
        if entries[0].key != victim:
            continue
        if state.tail[arriving] == state.newest[arriving]:
            if own < 0.0:
                at_once = demand.online[item] * (goal.worth[item] + goal.bonus)
                tail, passed = state.newest[arriving], state.passed[arriving]
                own = _standing(demand, goal, paid, arriving, tail, tail + 1, passed, rank, at_once)
            if precedes(own_score, own, arriving, entries[0]):
                break
        freed += _drop_tail(demand, state, victim)
        _look_again(state, heap, victim)
    return freed


@compiled
def _run(
    demand: Demand, goal: Goal, budget_bytes: int, paid: Floats, selected: Ints, state: _State,
    heap: Any, counts: Longs,
) -> None:  # fmt: skip
    arrivals = demand.arrival_backend.shape[0]
    used = 0
    done = 0
    for rank in range(arrivals + 1):
        while done < demand.gets_before[rank]:
            used -= _get(demand, state, heap, demand.get_backend[done], counts)
            done += 1
        if rank == arrivals:
            break
        backend = demand.arrival_backend[rank]
        item = demand.first_object[backend] + state.newest[backend]
        size = demand.size_bytes[item]
        if size <= budget_bytes and used + size > budget_bytes:
            needed = used + size - budget_bytes
            used -= _make_room(demand, goal, paid, selected, state, heap, rank, needed)
        if size <= budget_bytes and used + size <= budget_bytes:
            used += size
            state.newest[backend] += 1
            counts[0] += demand.online[item]
            counts[1] += demand.online[item] * size
            counts[2] += demand.online[item]
            counts[3] = max(counts[3], used)
            if demand.last_get[item] < demand.next_get[item]:
                # Nobody comes back for it, so for none of the older ones either.
                while state.tail[backend] < state.newest[backend]:
                    used -= _drop_tail(demand, state, backend)
        else:
            while state.tail[backend] < state.newest[backend]:
                used -= _drop_tail(demand, state, backend)
            state.newest[backend] += 1
            state.tail[backend] += 1
        _look_again(state, heap, backend)
