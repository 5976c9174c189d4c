"""The broker's result caches under a workload, compiled: event for event what the core does.

Why whole groups may move as one: whoever is connected takes each object the moment it arrives, so
all of them stand at the newest position and are one counter. Those who are away stand where they
left; since acknowledgements are cumulative, one number at each position says how many. A get is
then a split point in the sums of sizes (BAD's Algorithm 1 without its sets).

Positions count from 0 here: a marker is the number of objects taken, `tail` and `next` are
positions in the cache's own part of `objects`.
"""

from __future__ import annotations

import math
from typing import Any

from tocsin.lab.compiling import compiled, record_dtype
from tocsin.lab.heap import place, precedes, remove
from tocsin.lab.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE
from tocsin.policies import Candidate, estimates
from tocsin.policies.estimates import (
    AVERAGE_WEIGHT,
    FIRST_MISS_PER_S,
    LOOK_AHEAD,
    REESTIMATE_EVERY_S,
)
from tocsin.policies.expiry import LONGEST_TTL_S

CACHE = record_dtype(
    Candidate,
    [
        ("first", "i8"),  # where its objects begin
        ("tail", "i8"),
        ("next", "i8"),
        ("spoiled", "i8"),
        ("away_since_ms", "i8"),  # of those that wait for the tail
        ("arrivals", "i8"),
        ("arrival_bytes", "i8"),
        ("consumption_bytes", "i8"),
        ("consumption_rate", "f8"),
        ("measured", "i8"),
        ("marked", "i8"),
    ],
)
OBJECT = record_dtype(
    [
        ("size_bytes", "i8"),
        ("upto_bytes", "i8"),  # sizes of all before and this one
        ("cached_at", "f8"),
        ("created_at", "f8"),
        ("standing", "i8"),  # how many are away that have taken all before this one, not this
        ("away_since_ms", "i8"),  # the sum over them
    ]
)
FRONTEND = record_dtype(
    [("marker", "i8"), ("away_since", "f8"), ("backend", "i4"), ("next", "i4"), ("before", "i4")]
)
SUBSCRIBER = record_dtype([("online", "i4"), ("first", "i4"), ("last", "i4")])
RULES = record_dtype(
    [
        ("budget_bytes", "i8"),
        ("caches", "i8"),
        ("evicts", "i8"),
        ("expires", "i8"),
        ("looks_ahead", "i8"),
        ("first", "f8"),  # parameters of the admission policy
        ("second", "f8"),
        ("cluster_rtt_s", "f8"),
        ("cluster_bytes_per_s", "f8"),
        ("subscriber_rtt_s", "f8"),
        ("subscriber_bytes_per_s", "f8"),
    ]
)
_COUNTS = """hits hit_bytes misses miss_bytes gets gets_with_miss volume_objects volume_bytes
    pulled_bytes inserted inserted_bytes bypassed evicted evicted_bytes expired expired_bytes
    consumed consumed_bytes dropped dropped_bytes size_bytes max_bytes estimates ttls events"""
_MEASURES = """byte_s overshoot_byte_s held_s ttl_s planned_bytes latency_s
    measured_at estimated_at inflation usual_ttl_s hold_s"""
TOTALS = record_dtype(
    [(name, "i8") for name in [*_COUNTS.split(), "marks"]]
    + [(name, "f8") for name in _MEASURES.split()]
)
STEP = record_dtype([("hits", "i8"), ("misses", "i8"), ("size_bytes", "i8"), ("evicted", "i8")])

LATENCY_BINS = 1200
LATENCY_RATIO = 1.02  # of one bin's end to the next: percentiles are right to 1 %
SHORTEST_LATENCY_S = 1e-4

moving_average = compiled(estimates.moving_average)
growth = compiled(estimates.growth)
bin_of = compiled(estimates.bin_of)
observe = compiled(estimates.observe)
rate_returns = compiled(estimates.rate_returns)


@compiled
def _mark(caches: Any, totals: Any, marks: Any, backend: int) -> None:
    """Its score is to be looked at again before the next victim is chosen."""
    cache = caches[backend]
    if cache.marked == 0:
        cache.marked = 1
        marks[totals[0].marks] = backend
        totals[0].marks += 1


@compiled
def _look_ahead(cache: Any, objects: Any, absences: Any, away: int, now: float) -> None:
    """As `Suffix.look_ahead`."""
    away_s = max(0.0, now - cache.away_since_ms / away / 1000) if away > 0 else 0.0
    cache.return_rate = absences[3, bin_of(absences[0], away_s)]
    first_miss = FIRST_MISS_PER_S * cache.fetch_delay_s
    waiting = cache.waiting
    worth = waiting + first_miss * (waiting - cache.spoiled)
    size_bytes = cache.tail_size_bytes
    cache.prefix_worth = worth
    cache.prefix_bytes = size_bytes
    for position in range(cache.tail + 1, min(cache.next, cache.tail + LOOK_AHEAD)):
        item = objects[cache.first + position]
        waiting += item.standing
        worth += waiting + first_miss * item.standing
        size_bytes += item.size_bytes
        if worth * cache.prefix_bytes < cache.prefix_worth * size_bytes:
            cache.prefix_worth = worth
            cache.prefix_bytes = size_bytes


@compiled
def _describe_tail(cache: Any, objects: Any) -> None:
    item = objects[cache.first + cache.tail]
    cache.tail_size_bytes = item.size_bytes
    cache.tail_created_at = item.created_at
    cache.tail_cached_at = item.cached_at


@compiled
def _mend(
    caches: Any, objects: Any, totals: Any, marks: Any, victims: Any, absences: Any,
    score: Any, looks_ahead: int, now: float,
) -> None:  # fmt: skip
    """Score the caches that were marked."""
    entries, places, count = victims
    for at in range(totals[0].marks):
        backend = marks[at]
        cache = caches[backend]
        cache.marked = 0
        if cache.next > cache.tail:
            _describe_tail(cache, objects)
            cache.present = 0
            if looks_ahead:
                _look_ahead(cache, objects, absences, cache.waiting, now)
            place(entries, places, count, backend, score(cache), cache.tail_cached_at)
        else:
            remove(entries, places, count, backend)
    totals[0].marks = 0


@compiled
def _account(totals: Any, budget_bytes: int, now: float) -> None:
    total = totals[0]
    elapsed_s = now - total.measured_at
    if elapsed_s > 0:
        total.byte_s += total.size_bytes * elapsed_s
        total.overshoot_byte_s += max(0, total.size_bytes - budget_bytes) * elapsed_s
        total.measured_at = now


@compiled
def _set_deadline(caches: Any, objects: Any, deadlines: Any, backend: int) -> None:
    entries, places, count = deadlines
    cache = caches[backend]
    if cache.next > cache.tail:
        cached_at = objects[cache.first + cache.tail].cached_at
        place(entries, places, count, backend, cached_at + cache.ttl_s, cached_at)
    else:
        remove(entries, places, count, backend)


@compiled
def _pop(
    caches: Any, objects: Any, totals: Any, marks: Any, deadlines: Any, rules: Any,
    backend: int, now: float,
) -> int:  # fmt: skip
    """The tail object leaves. Its size."""
    _account(totals, rules[0].budget_bytes, now)
    cache = caches[backend]
    gone = objects[cache.first + cache.tail]
    totals[0].size_bytes -= gone.size_bytes
    totals[0].held_s += now - gone.cached_at
    cache.spoiled = cache.waiting
    cache.tail += 1
    tail = objects[cache.first + cache.tail]  # or where it will be
    cache.waiting += tail.standing
    cache.away_since_ms += tail.away_since_ms
    tail.standing = 0
    tail.away_since_ms = 0
    if cache.tail == cache.next:
        cache.waiting += cache.online
    _mark(caches, totals, marks, backend)
    if rules[0].expires:
        _set_deadline(caches, objects, deadlines, backend)
    size_bytes: int = gone.size_bytes
    return size_bytes


@compiled
def _consume(
    caches: Any, objects: Any, totals: Any, marks: Any, deadlines: Any, rules: Any,
    backend: int, now: float,
) -> None:  # fmt: skip
    """Tail objects that nobody waits for any longer leave."""
    cache = caches[backend]
    while cache.waiting == 0 and cache.next > cache.tail:
        size_bytes = _pop(caches, objects, totals, marks, deadlines, rules, backend, now)
        cache.consumption_bytes += size_bytes
        totals[0].consumed += 1
        totals[0].consumed_bytes += size_bytes


@compiled
def _estimate(
    caches: Any, objects: Any, totals: Any, marks: Any, deadlines: Any, absences: Any,
    rules: Any, time_to_live: Any, now: float,
) -> None:  # fmt: skip
    """As `ResultCache._estimate`."""
    total = totals[0]
    elapsed_s = now - total.estimated_at
    if elapsed_s <= 0:
        return
    total.estimated_at = now
    budget_bytes = float(rules[0].budget_bytes)
    subscribers = arrival = grown = planned_bytes = 0.0
    for backend in range(caches.shape[0]):
        cache = caches[backend]
        if cache.attached == 0:
            continue
        weight = AVERAGE_WEIGHT if cache.measured else 1.0
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
        cache.measured = 1
        subscribers += cache.attached
        arrival += cache.arrival_bytes_per_s
    total.hold_s = budget_bytes / arrival if arrival > 0 else 0.0
    for backend in range(caches.shape[0]):
        cache = caches[backend]
        if cache.attached == 0:
            continue
        rate = growth(cache.arrival_bytes_per_s, cache.consumption_rate)
        cache.ttl_s = time_to_live(cache.attached / subscribers, budget_bytes, rate)
        cache.hold_s = total.hold_s
        grown += rate
        planned_bytes += rate * cache.ttl_s
        total.ttl_s += cache.ttl_s
        total.ttls += 1
        _mark(caches, totals, marks, backend)
        if rules[0].expires:
            _set_deadline(caches, objects, deadlines, backend)
    total.usual_ttl_s = time_to_live(1.0, budget_bytes, grown)
    rate_returns(absences[1], absences[2], absences[3])
    total.estimates += 1
    total.planned_bytes += planned_bytes


@compiled
def _drop_expired(
    caches: Any, objects: Any, totals: Any, marks: Any, deadlines: Any, rules: Any, now: float
) -> None:
    entries, _, count = deadlines
    while count[0] > 0 and entries[0].score <= now:
        backend = entries[0].key
        size_bytes = _pop(caches, objects, totals, marks, deadlines, rules, backend, now)
        totals[0].expired += 1
        totals[0].expired_bytes += size_bytes


@compiled
def _expire(
    caches: Any, objects: Any, totals: Any, marks: Any, deadlines: Any, absences: Any,
    rules: Any, time_to_live: Any, now: float,
) -> None:  # fmt: skip
    if rules[0].expires:
        _drop_expired(caches, objects, totals, marks, deadlines, rules, now)
    if now - totals[0].estimated_at >= REESTIMATE_EVERY_S:
        _estimate(
            caches, objects, totals, marks, deadlines, absences, rules, time_to_live, now
        )  # fmt: skip
        if rules[0].expires:
            _drop_expired(caches, objects, totals, marks, deadlines, rules, now)


@compiled
def _access(cache: Any, totals: Any, now: float) -> None:
    cache.last_access_at = now
    cache.inflation = totals[0].inflation


@compiled
def _fetch_took(cache: Any, delay_s: float) -> None:
    known = cache.fetch_delay_s
    if known == 0.0:
        cache.fetch_delay_s = delay_s
    else:
        cache.fetch_delay_s = moving_average(known, delay_s, AVERAGE_WEIGHT)


@compiled
def _got(
    cache: Any, totals: Any, rules: Any, latencies: Any, now: float,
    hits: int, hit_bytes: int, misses: int, miss_bytes: int, times: int,
) -> None:  # fmt: skip
    """So many gets alike, one after the other."""
    total, rule = totals[0], rules[0]
    total.hits += hits * times
    total.hit_bytes += hit_bytes * times
    total.misses += misses * times
    total.miss_bytes += miss_bytes * times
    total.gets += times
    latency_s = rule.subscriber_rtt_s + (hit_bytes + miss_bytes) / rule.subscriber_bytes_per_s
    if misses:
        total.gets_with_miss += times
        fetch_s = rule.cluster_rtt_s + miss_bytes / rule.cluster_bytes_per_s
        latency_s += fetch_s
        taken_s = (now + fetch_s) - now  # as a clock would tell it
        for _ in range(times):
            before = cache.fetch_delay_s
            _fetch_took(cache, taken_s)
            if cache.fetch_delay_s == before:
                break
    total.latency_s += latency_s * times
    steps = math.log(max(latency_s, SHORTEST_LATENCY_S) / SHORTEST_LATENCY_S)
    latencies[min(int(steps / math.log(LATENCY_RATIO)), LATENCY_BINS - 1)] += times


@compiled
def _make_room(
    caches: Any, objects: Any, totals: Any, marks: Any, victims: Any, deadlines: Any,
    absences: Any, rules: Any, score: Any, backend: int, size_bytes: int, created_at: float,
    now: float,
) -> bool:  # fmt: skip
    """As `ResultCache._make_room`: False if the new object is the smallest itself."""
    cache, entries, count = caches[backend], victims[0], victims[2]
    while totals[0].size_bytes + size_bytes > rules[0].budget_bytes:
        looks_ahead = rules[0].looks_ahead
        _mend(caches, objects, totals, marks, victims, absences, score, looks_ahead, now)
        if cache.tail == cache.next:
            cache.tail_size_bytes = size_bytes
            cache.tail_created_at = created_at
            cache.tail_cached_at = now
            cache.present = cache.online
            if looks_ahead:
                _look_ahead(cache, objects, absences, cache.waiting - cache.online, now)
            if count[0] == 0 or precedes(score(cache), now, backend, entries[0]):
                return False
        totals[0].inflation = entries[0].score
        victim = entries[0].key
        freed_bytes = _pop(caches, objects, totals, marks, deadlines, rules, victim, now)
        totals[0].evicted += 1
        totals[0].evicted_bytes += freed_bytes
    return True


@compiled
def _publish(
    caches: Any, objects: Any, totals: Any, marks: Any, victims: Any, deadlines: Any,
    absences: Any, rules: Any, memory: Any, latencies: Any,
    score: Any, time_to_live: Any, admit: Any, backend: int, size_bytes: int, now: float,
) -> None:  # fmt: skip
    cache, total, rule = caches[backend], totals[0], rules[0]
    fetch_s = rule.cluster_rtt_s + size_bytes / rule.cluster_bytes_per_s
    created_at = now - fetch_s
    position = cache.next
    item = objects[cache.first + position]
    item.size_bytes = size_bytes
    item.upto_bytes = size_bytes
    if position > 0:
        item.upto_bytes += objects[cache.first + position - 1].upto_bytes
    item.cached_at = now
    item.created_at = created_at
    total.volume_objects += 1
    total.volume_bytes += size_bytes
    admitted = False
    if rule.caches:
        total.pulled_bytes += size_bytes
        _fetch_took(cache, now - created_at)
        _mark(caches, totals, marks, backend)
        _expire(
            caches, objects, totals, marks, deadlines, absences, rules, time_to_live, now
        )  # fmt: skip
        if cache.tail == position:
            _access(cache, totals, now)
        if total.estimates == 0 and total.size_bytes + size_bytes > rule.budget_bytes:
            _estimate(
                caches, objects, totals, marks, deadlines, absences, rules, time_to_live, now
            )  # fmt: skip
        admitted = size_bytes <= rule.budget_bytes and admit(
            memory[0], cache.attached, rule.first, rule.second
        )
        if admitted and rule.evicts:
            admitted = _make_room(
                caches, objects, totals, marks, victims, deadlines, absences, rules, score,
                backend, size_bytes, created_at, now,
            )  # fmt: skip
    online = cache.online
    if admitted:
        _account(totals, rule.budget_bytes, now)
        if cache.tail == position:  # those who are connected take it at once
            cache.waiting -= online
        cache.next = position + 1
        cache.arrivals += 1
        cache.arrival_bytes += size_bytes
        total.size_bytes += size_bytes
        total.inserted += 1
        total.inserted_bytes += size_bytes
        total.max_bytes = max(total.max_bytes, total.size_bytes)
        if cache.tail == position:
            _mark(caches, totals, marks, backend)
            if rule.expires:
                _set_deadline(caches, objects, deadlines, backend)
    else:
        if rule.caches:
            total.bypassed += 1
        while cache.next > cache.tail:
            gone_bytes = _pop(caches, objects, totals, marks, deadlines, rules, backend, now)
            total.dropped += 1
            total.dropped_bytes += gone_bytes
        cache.next = position + 1
        cache.tail = position + 1
        cache.spoiled = cache.waiting - online
    if online > 0:
        _expire(
            caches, objects, totals, marks, deadlines, absences, rules, time_to_live, now
        )  # fmt: skip
        _access(cache, totals, now)
        if cache.tail <= position:
            _got(cache, totals, rules, latencies, now, 1, size_bytes, 0, 0, online)
            _consume(caches, objects, totals, marks, deadlines, rules, backend, now)
        else:
            _got(cache, totals, rules, latencies, now, 0, 0, 1, size_bytes, online)
        _mark(caches, totals, marks, backend)


@compiled
def _come(
    caches: Any, objects: Any, totals: Any, marks: Any, deadlines: Any, absences: Any,
    rules: Any, latencies: Any, time_to_live: Any, frontend: Any, now: float,
) -> None:  # fmt: skip
    """A frontend subscription's owner is connected again and gets everything after its marker."""
    backend, marker = frontend.backend, frontend.marker
    cache = caches[backend]
    if rules[0].looks_ahead and now > frontend.away_since:
        observe(absences[0], absences[1], absences[2], now - frontend.away_since, True)
    end = cache.next
    if marker < end:
        _expire(
            caches, objects, totals, marks, deadlines, absences, rules, time_to_live, now
        )  # fmt: skip
        _access(cache, totals, now)
        begin = max(marker, cache.tail)
        upto = objects[cache.first + end - 1].upto_bytes
        before = objects[cache.first + marker - 1].upto_bytes if marker > 0 else 0
        split = objects[cache.first + begin - 1].upto_bytes if begin > 0 else 0
        _got(
            cache, totals, rules, latencies, now,
            end - begin, upto - split, begin - marker, split - before, 1,
        )  # fmt: skip
        _mark(caches, totals, marks, backend)
    cache.online += 1
    away_since_ms = int(frontend.away_since * 1000)
    if cache.tail == end:  # waits with all the others for what comes next
        cache.away_since_ms -= away_since_ms
        if marker < end:
            cache.spoiled -= 1
    elif marker <= cache.tail:
        cache.waiting -= 1
        cache.away_since_ms -= away_since_ms
        if marker < cache.tail:
            cache.spoiled -= 1
        _consume(caches, objects, totals, marks, deadlines, rules, backend, now)
    else:
        item = objects[cache.first + marker]
        item.standing -= 1
        item.away_since_ms -= away_since_ms


@compiled
def _stand(cache: Any, objects: Any, frontend: Any, now: float) -> None:
    """A frontend subscription's owner, who has taken everything, is away from now on."""
    frontend.marker = cache.next
    frontend.away_since = now
    if cache.tail == cache.next:
        cache.away_since_ms += int(now * 1000)
    else:
        item = objects[cache.first + cache.next]
        item.standing += 1
        item.away_since_ms += int(now * 1000)


@compiled
def _subscribe(
    caches: Any, objects: Any, totals: Any, frontends: Any, subscribers: Any,
    number: int, backend: int, owner: int, now: float,
) -> None:  # fmt: skip
    cache, frontend, subscriber = caches[backend], frontends[number], subscribers[owner]
    frontend.backend = backend
    frontend.before = subscriber.last
    frontend.next = -1
    if subscriber.last >= 0:
        frontends[subscriber.last].next = number
    else:
        subscriber.first = number
    subscriber.last = number
    if cache.attached == 0:
        cache.ttl_s = totals[0].usual_ttl_s
        cache.hold_s = totals[0].hold_s
    cache.attached += 1
    if cache.tail == cache.next:
        cache.waiting += 1
    if subscriber.online:
        cache.online += 1
    else:
        _stand(cache, objects, frontend, now)


@compiled
def _unsubscribe(
    caches: Any, objects: Any, totals: Any, marks: Any, deadlines: Any, absences: Any,
    rules: Any, frontends: Any, subscribers: Any, number: int, owner: int, now: float,
) -> None:  # fmt: skip
    frontend, subscriber = frontends[number], subscribers[owner]
    backend = frontend.backend
    cache = caches[backend]
    if frontend.before >= 0:
        frontends[frontend.before].next = frontend.next
    else:
        subscriber.first = frontend.next
    if frontend.next >= 0:
        frontends[frontend.next].before = frontend.before
    else:
        subscriber.last = frontend.before
    cache.attached -= 1
    if subscriber.online:
        cache.online -= 1
        if cache.tail == cache.next:
            cache.waiting -= 1
    else:
        if rules[0].looks_ahead:
            observe(absences[0], absences[1], absences[2], now - frontend.away_since, False)
        away_since_ms = int(frontend.away_since * 1000)
        marker = frontend.marker
        if marker <= cache.tail:
            cache.waiting -= 1
            cache.away_since_ms -= away_since_ms
            if marker < cache.tail:
                cache.spoiled -= 1
            _consume(caches, objects, totals, marks, deadlines, rules, backend, now)
            _mark(caches, totals, marks, backend)
        else:
            item = objects[cache.first + marker]
            item.standing -= 1
            item.away_since_ms -= away_since_ms
    if cache.attached == 0:  # nobody is left: the cache is closed
        if cache.next > cache.tail:
            _consume(caches, objects, totals, marks, deadlines, rules, backend, now)
        cache.arrival_bytes_per_s = 0.0
        cache.arrivals_per_s = 0.0
        cache.consumption_rate = 0.0
        cache.arrivals = 0
        cache.arrival_bytes = 0
        cache.consumption_bytes = 0
        cache.measured = 0
        cache.last_access_at = 0.0
        cache.inflation = 0.0
        cache.fetch_delay_s = 0.0


@compiled
def run(
    at: Any, kind: Any, subject: Any, value: Any, owners: Any,
    caches: Any, objects: Any, frontends: Any, subscribers: Any, totals: Any, marks: Any,
    victims: Any, deadlines: Any, absences: Any, rules: Any, memory: Any, latencies: Any,
    steps: Any, score: Any, time_to_live: Any, admit: Any,
) -> None:  # fmt: skip
    """Every event in turn; `steps` takes what stands after each, if it has room."""
    events = 0
    totals[0].usual_ttl_s = LONGEST_TTL_S
    rate_returns(absences[1], absences[2], absences[3])
    for event in range(at.shape[0]):
        now, what, who = at[event], kind[event], subject[event]
        if what == PUBLISH:
            if caches[who].attached > 0:
                events += 1
                _publish(
                    caches, objects, totals, marks, victims, deadlines, absences, rules, memory,
                    latencies, score, time_to_live, admit, who, int(value[event]), now,
                )  # fmt: skip
        elif what == ONLINE:
            subscribers[who].online = 1
            number = subscribers[who].first
            while number >= 0:
                events += 1
                frontend = frontends[number]
                _come(
                    caches, objects, totals, marks, deadlines, absences, rules, latencies,
                    time_to_live, frontend, now,
                )  # fmt: skip
                number = frontend.next
        elif what == OFFLINE:
            subscribers[who].online = 0
            number = subscribers[who].first
            while number >= 0:
                events += 1
                frontend = frontends[number]
                cache = caches[frontend.backend]
                cache.online -= 1
                _stand(cache, objects, frontend, now)
                number = frontend.next
        elif what == SUBSCRIBE:
            events += 1
            _subscribe(
                caches, objects, totals, frontends, subscribers,
                who, value[event], owners[who], now,
            )  # fmt: skip
        else:
            events += 1
            _unsubscribe(
                caches, objects, totals, marks, deadlines, absences, rules, frontends,
                subscribers, who, owners[who], now,
            )  # fmt: skip
        if steps.shape[0] > 0:
            step, total = steps[event], totals[0]
            step.hits = total.hits
            step.misses = total.misses
            step.size_bytes = total.size_bytes
            step.evicted = total.evicted + total.expired + total.consumed + total.dropped
    totals[0].events = events
