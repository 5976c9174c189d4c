"""Estimates, made anew every while, and the expiry of what has outlived its time to live."""

from __future__ import annotations

from typing import Any

from tocsin.lab.jit.functions import compiled, inlined
from tocsin.lab.jit.heap import place, remove
from tocsin.lab.simulators.result_cache.caches import mark, pop
from tocsin.lab.simulators.result_cache.state import EVICTION, EXPIRY
from tocsin.policies.result import estimates
from tocsin.policies.result.estimates import AVERAGE_WEIGHT, REESTIMATE_EVERY_S

moving_average = compiled(estimates.moving_average)
growth = compiled(estimates.growth)


@inlined
def fetch_took(cache: Any, delay_s: float) -> None:
    known = cache.fetch_delay_s
    if known == 0.0:
        cache.fetch_delay_s = delay_s
    else:
        cache.fetch_delay_s = moving_average(known, delay_s, AVERAGE_WEIGHT)


@inlined
def is_due(run: Any, now: float) -> bool:
    """May something expire, or be estimated again? Looked at first because it seldom is so."""
    return bool(run.expires or now - run.estimated_at >= REESTIMATE_EVERY_S)


@compiled
def expire(
    caches: Any, objects: Any, run: Any, marks: Any, deadlines: Any, policies: Any,
    time_to_live: Any, reestimate: Any, now: float,
) -> None:  # fmt: skip
    if run.expires:
        drop_expired(caches, objects, run, marks, deadlines, now)
    if now - run.estimated_at >= REESTIMATE_EVERY_S:
        estimate(caches, run, marks, policies, time_to_live, reestimate, now)
        if run.expires:
            drop_expired(caches, objects, run, marks, deadlines, now)


@compiled
def drop_expired(
    caches: Any, objects: Any, run: Any, marks: Any, deadlines: Any, now: float
) -> None:
    entries, _, count = deadlines
    mend_deadlines(caches, objects, run, marks, deadlines)
    while count[0] > 0 and entries[0].score <= now:
        size_bytes = pop(caches[entries[0].key], objects, run, marks, now)
        run.expired += 1
        run.expired_bytes += size_bytes
        mend_deadlines(caches, objects, run, marks, deadlines)


@compiled
def mend_deadlines(caches: Any, objects: Any, run: Any, marks: Any, deadlines: Any) -> None:
    entries, places, count = deadlines
    for at in range(run.late_marks):
        cache = caches[marks[1, at]]
        cache.marked &= 1
        if cache.next > cache.tail:
            cached_at = objects[cache.first + cache.tail].cached_at
            place(entries, places, count, cache.backend, cached_at + cache.ttl_s, cached_at)
        else:
            remove(entries, places, count, cache.backend)
    run.late_marks = 0


@compiled
def estimate(
    caches: Any, run: Any, marks: Any, policies: Any, time_to_live: Any, reestimate: Any, now: float
) -> None:
    """As `ResultCache._estimate`."""
    elapsed_s = now - run.estimated_at
    if elapsed_s <= 0:
        return
    run.estimated_at = now
    budget_bytes = float(run.budget_bytes)
    subscribers = arrival = grown = planned_bytes = 0.0
    for backend in range(caches.shape[0]):
        cache = caches[backend]
        if cache.attached == 0:
            continue
        weight = AVERAGE_WEIGHT if cache.measured > 1 else 1.0
        cache.arrival_bytes_per_s = moving_average(
            cache.arrival_bytes_per_s, cache.arrival_bytes / elapsed_s, weight
        )
        cache.arrivals_per_s = moving_average(
            cache.arrivals_per_s, cache.arrivals / elapsed_s, weight
        )
        cache.consumption_rate = moving_average(
            cache.consumption_rate, cache.consumption_bytes / elapsed_s, weight
        )
        cache.arrivals = 0
        cache.arrival_bytes = 0
        cache.consumption_bytes = 0
        cache.measured += 1
        subscribers += cache.attached
        arrival += cache.arrival_bytes_per_s
        grown += growth(cache.arrival_bytes_per_s, cache.consumption_rate)
    run.usual_ttl_s = time_to_live(policies[EXPIRY], 1.0, budget_bytes, grown)
    run.hold_s = budget_bytes / arrival if arrival > 0 else 0.0
    for backend in range(caches.shape[0]):
        cache = caches[backend]
        if cache.attached == 0:
            continue
        rate = growth(cache.arrival_bytes_per_s, cache.consumption_rate)
        cache.ttl_s = run.usual_ttl_s
        if cache.measured > 1:
            cache.ttl_s = time_to_live(
                policies[EXPIRY], cache.attached / subscribers, budget_bytes, rate
            )
        cache.hold_s = run.hold_s
        planned_bytes += rate * cache.ttl_s
        mark(cache, run, marks)
    reestimate(policies[EVICTION])
    run.estimates += 1
    run.planned_bytes += planned_bytes
