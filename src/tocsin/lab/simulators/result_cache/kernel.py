"""The broker's result caches under a workload, compiled: event for event what the core does.

Why whole groups may move as one: whoever is connected takes each object the moment it arrives, so
all of them stand at the newest position and are one counter. Those who are away stand where they
left; since acknowledgements are cumulative, one number at each position says how many. A get is
then a split point in the sums of sizes (BAD, Algorithm 1, without its sets).
"""

from __future__ import annotations

from typing import Any

from tocsin.lab.jit.functions import borrow, compiled, inlined
from tocsin.lab.simulators.result_cache.caches import access, account, consume, make_room, mark, pop
from tocsin.lab.simulators.result_cache.estimates import (
    estimate,
    expire,
    fetch_took,
    is_due,
)
from tocsin.lab.simulators.result_cache.gets import got
from tocsin.lab.simulators.result_cache.state import ADMISSION, EVICTION
from tocsin.lab.simulators.result_cache.subscribers import (
    come,
    observe_returns,
    stand,
    subscribe,
    unlink,
    unsubscribe,
)
from tocsin.lab.workloads.workload import ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from tocsin.policies.result.expiry import LONGEST_TTL_S


@inlined
def offer(
    cache: Any, caches: Any, objects: Any, run: Any, marks: Any, victims: Any, deadlines: Any,
    policies: Any, score: Any, look: Any, time_to_live: Any, reestimate: Any, admit: Any,
    size_bytes: int, created_at: float, now: float,
) -> bool:  # fmt: skip
    """A new object was pulled: is it cached?"""
    run.pulled_bytes += size_bytes
    fetch_took(cache, now - created_at)
    if cache.next > cache.tail:
        mark(cache, run, marks)
    if is_due(run, now):
        expire(caches, objects, run, marks, deadlines, policies, time_to_live, reestimate, now)
    if cache.tail == cache.next:
        access(cache, run, now)
    if run.estimates == 0 and run.size_bytes + size_bytes > run.budget_bytes:
        estimate(caches, run, marks, policies, time_to_live, reestimate, now)
    if size_bytes > run.budget_bytes or not admit(policies[ADMISSION], cache.attached):
        return False
    if not run.evicts:
        return True
    return make_room(
        cache,
        caches,
        objects,
        run,
        marks,
        victims,
        policies,
        score,
        look,
        size_bytes,
        created_at,
        now,
    )


@inlined
def publish(
    cache: Any, caches: Any, objects: Any, run: Any, marks: Any, victims: Any, deadlines: Any,
    policies: Any, latencies: Any, score: Any, look: Any, time_to_live: Any, reestimate: Any,
    admit: Any, size_bytes: int, now: float,
) -> None:  # fmt: skip
    created_at = now - (run.cluster_rtt_s + size_bytes / run.cluster_bytes_per_s)
    position = cache.next
    item = objects[cache.first + position]
    item.size_bytes = size_bytes
    item.upto_bytes = size_bytes
    if position > 0:
        item.upto_bytes += objects[cache.first + position - 1].upto_bytes
    item.cached_at = now
    item.created_at = created_at
    run.volume_objects += 1
    run.volume_bytes += size_bytes
    admitted = run.caches and offer(
        cache, caches, objects, run, marks, victims, deadlines, policies,
        score, look, time_to_live, reestimate, admit, size_bytes, created_at, now,
    )  # fmt: skip
    online = cache.online
    if admitted:
        account(run, now)
        if cache.tail == position:  # those who are connected take it at once
            cache.waiting -= online
            mark(cache, run, marks)
        cache.next = position + 1
        cache.arrivals += 1
        cache.arrival_bytes += size_bytes
        run.size_bytes += size_bytes
        run.inserted += 1
        run.inserted_bytes += size_bytes
        if cache.ttl_s < LONGEST_TTL_S:
            run.ttls += 1
            run.ttl_s += cache.ttl_s
        run.max_bytes = max(run.max_bytes, run.size_bytes)
    else:
        run.bypassed += run.caches
        while cache.next > cache.tail:
            gone_bytes = pop(cache, objects, run, marks, now)
            run.dropped += 1
            run.dropped_bytes += gone_bytes
        cache.next = position + 1
        cache.tail = position + 1
        cache.spoiled = cache.waiting - online
    if online > 0:
        if is_due(run, now):
            expire(caches, objects, run, marks, deadlines, policies, time_to_live, reestimate, now)
        access(cache, run, now)
        mark(cache, run, marks)
        if cache.tail <= position:
            got(cache, run, latencies, now, 1, size_bytes, 0, 0, online)
            consume(cache, objects, run, marks, now)
        else:
            got(cache, run, latencies, now, 0, 0, 1, size_bytes, online)


@compiled
def simulate(
    at: Any, kind: Any, subject: Any, value: Any, owners: Any,
    caches: Any, objects: Any, frontends: Any, subscribers: Any, runs: Any, marks: Any,
    victims: Any, deadlines: Any, policies: Any, latencies: Any, steps: Any, score: Any, look: Any,
    time_to_live: Any, reestimate: Any, admit: Any, absence: Any,
) -> None:  # fmt: skip
    """Every event in turn; `steps` takes what stands after each, if it has room."""
    run = runs[0]
    policies = (policies[0][0], policies[1][0], policies[2][0])
    caches, objects, frontends = borrow(caches), borrow(objects), borrow(frontends)
    marks, latencies = borrow(marks), borrow(latencies)
    victims = (borrow(victims[0]), borrow(victims[1]), borrow(victims[2]))
    events = 0
    run.usual_ttl_s = LONGEST_TTL_S
    for event in range(at.shape[0]):
        now, what, who = at[event], kind[event], subject[event]
        if what == PUBLISH:
            cache = caches[who]
            if cache.attached > 0:
                events += 1
                publish(
                    cache, caches, objects, run, marks, victims, deadlines, policies,
                    latencies, score, look, time_to_live, reestimate, admit, int(value[event]), now,
                )  # fmt: skip
        elif what == SUBSCRIBE:
            events += 1
            cache, subscriber = caches[value[event]], subscribers[owners[who]]
            subscribe(cache, objects, run, frontends, who, subscriber, now)
        elif what == UNSUBSCRIBE:
            events += 1
            frontend, subscriber = frontends[who], subscribers[owners[who]]
            unlink(frontends, frontend, subscriber)
            if run.observes and not subscriber.online:
                absence(policies[EVICTION], now - frontend.away_since, False)
            cache = caches[frontend.backend]
            unsubscribe(cache, objects, run, marks, frontend, subscriber.online, now)
        else:
            subscriber = subscribers[who]
            subscriber.online = what == ONLINE
            if what == ONLINE and run.observes:  # before any get: one may re-estimate
                observe_returns(frontends, subscriber.first, policies, absence, now)
            number = subscriber.first
            while number >= 0:
                events += 1
                frontend = frontends[number]
                cache = caches[frontend.backend]
                if what == ONLINE:
                    if frontend.marker < cache.next and is_due(run, now):
                        expire(
                            caches,
                            objects,
                            run,
                            marks,
                            deadlines,
                            policies,
                            time_to_live,
                            reestimate,
                            now,
                        )
                    come(cache, objects, run, marks, latencies, frontend, now)
                else:
                    cache.online -= 1
                    stand(cache, objects, frontend, now)
                number = frontend.next
        if steps.shape[0] > 0:
            step = steps[event]
            step.hits = run.hits
            step.misses = run.misses
            step.size_bytes = run.size_bytes
            step.evicted = run.evicted + run.expired + run.consumed + run.dropped
    run.events = events
