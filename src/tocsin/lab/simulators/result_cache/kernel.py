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

from tocsin.lab.compiling.functions import borrow, compiled, inlined
from tocsin.lab.compiling.heap import place, precedes, remove
from tocsin.lab.compiling.records import record_dtype
from tocsin.lab.workloads.workload import ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE
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
        ("marked", "i8"),  # 1: its score is old, 2: its deadline is
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
_RULES = """budget_bytes caches evicts expires looks_ahead"""
_COUNTS = """hits hit_bytes misses miss_bytes gets gets_with_miss volume_objects volume_bytes
    pulled_bytes inserted inserted_bytes bypassed evicted evicted_bytes expired expired_bytes
    consumed consumed_bytes dropped dropped_bytes size_bytes max_bytes estimates ttls events
    marks late_marks"""
_NUMBERS = """first second cluster_rtt_s cluster_bytes_per_s subscriber_rtt_s
    subscriber_bytes_per_s"""
_MEASURES = """byte_s overshoot_byte_s held_s ttl_s planned_bytes latency_s
    measured_at estimated_at inflation usual_ttl_s hold_s"""
RUN = record_dtype(
    [(name, "i8") for name in f"{_RULES} {_COUNTS}".split()]
    + [(name, "f8") for name in f"{_NUMBERS} {_MEASURES}".split()]
)
"""One run: its rules, what it has counted and measured."""
STEP = record_dtype([("hits", "i8"), ("misses", "i8"), ("size_bytes", "i8"), ("evicted", "i8")])

LATENCY_BINS = 1200
LATENCY_RATIO = 1.02  # of one bin's end to the next: percentiles are right to 1 %
SHORTEST_LATENCY_S = 1e-4

moving_average = compiled(estimates.moving_average)
growth = compiled(estimates.growth)
bin_of = compiled(estimates.bin_of)
observe = compiled(estimates.observe)
rate_returns = compiled(estimates.rate_returns)


@inlined
def _mark(cache: Any, run: Any, marks: Any) -> None:
    """Score and deadline are to be looked at again before they are next needed."""
    if cache.marked & 1 == 0:
        cache.marked |= 1
        marks[0, run.marks] = cache.backend
        run.marks += 1
    if run.expires and cache.marked & 2 == 0:
        cache.marked |= 2
        marks[1, run.late_marks] = cache.backend
        run.late_marks += 1


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
def _mend_scores(
    caches: Any, objects: Any, run: Any, marks: Any, victims: Any, absences: Any,
    score: Any, now: float,
) -> None:  # fmt: skip
    entries, places, count = victims
    for at in range(run.marks):
        cache = caches[marks[0, at]]
        cache.marked &= 2
        if cache.next > cache.tail:
            item = objects[cache.first + cache.tail]
            cache.tail_size_bytes = item.size_bytes
            cache.tail_created_at = item.created_at
            cache.tail_cached_at = item.cached_at
            cache.present = 0
            if run.looks_ahead:
                _look_ahead(cache, objects, absences, cache.waiting, now)
            place(entries, places, count, cache.backend, score(cache), item.cached_at)
        else:
            remove(entries, places, count, cache.backend)
    run.marks = 0


@compiled
def _mend_deadlines(caches: Any, objects: Any, run: Any, marks: Any, deadlines: Any) -> None:
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


@inlined
def _account(run: Any, now: float) -> None:
    elapsed_s = now - run.measured_at
    if elapsed_s > 0:
        run.byte_s += run.size_bytes * elapsed_s
        run.overshoot_byte_s += max(0, run.size_bytes - run.budget_bytes) * elapsed_s
        run.measured_at = now


@compiled
def _pop(cache: Any, objects: Any, run: Any, marks: Any, now: float) -> int:
    """The tail object leaves. Its size."""
    _account(run, now)
    gone = objects[cache.first + cache.tail]
    run.size_bytes -= gone.size_bytes
    run.held_s += now - gone.cached_at
    cache.spoiled = cache.waiting
    cache.tail += 1
    tail = objects[cache.first + cache.tail]  # or where it will be
    cache.waiting += tail.standing
    cache.away_since_ms += tail.away_since_ms
    tail.standing = 0
    tail.away_since_ms = 0
    if cache.tail == cache.next:
        cache.waiting += cache.online
    _mark(cache, run, marks)
    size_bytes: int = gone.size_bytes
    return size_bytes


@compiled
def _consume(cache: Any, objects: Any, run: Any, marks: Any, now: float) -> None:
    """Tail objects that nobody waits for any longer leave."""
    while cache.waiting == 0 and cache.next > cache.tail:
        size_bytes = _pop(cache, objects, run, marks, now)
        cache.consumption_bytes += size_bytes
        run.consumed += 1
        run.consumed_bytes += size_bytes


@compiled
def _estimate(
    caches: Any, run: Any, marks: Any, absences: Any, time_to_live: Any, now: float
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
    run.usual_ttl_s = time_to_live(1.0, budget_bytes, grown)
    run.hold_s = budget_bytes / arrival if arrival > 0 else 0.0
    for backend in range(caches.shape[0]):
        cache = caches[backend]
        if cache.attached == 0:
            continue
        rate = growth(cache.arrival_bytes_per_s, cache.consumption_rate)
        cache.ttl_s = run.usual_ttl_s
        if cache.measured > 1:
            cache.ttl_s = time_to_live(cache.attached / subscribers, budget_bytes, rate)
        cache.hold_s = run.hold_s
        planned_bytes += rate * cache.ttl_s
        _mark(cache, run, marks)
    rate_returns(absences[1], absences[2], absences[3])
    run.estimates += 1
    run.planned_bytes += planned_bytes


@compiled
def _drop_expired(
    caches: Any, objects: Any, run: Any, marks: Any, deadlines: Any, now: float
) -> None:
    entries, _, count = deadlines
    _mend_deadlines(caches, objects, run, marks, deadlines)
    while count[0] > 0 and entries[0].score <= now:
        size_bytes = _pop(caches[entries[0].key], objects, run, marks, now)
        run.expired += 1
        run.expired_bytes += size_bytes
        _mend_deadlines(caches, objects, run, marks, deadlines)


@inlined
def _is_due(run: Any, now: float) -> bool:
    """May something expire, or be estimated again? Looked at first because it seldom is so."""
    return bool(run.expires or now - run.estimated_at >= REESTIMATE_EVERY_S)


@compiled
def _expire(
    caches: Any, objects: Any, run: Any, marks: Any, deadlines: Any, absences: Any,
    time_to_live: Any, now: float,
) -> None:  # fmt: skip
    if run.expires:
        _drop_expired(caches, objects, run, marks, deadlines, now)
    if now - run.estimated_at >= REESTIMATE_EVERY_S:
        _estimate(caches, run, marks, absences, time_to_live, now)
        if run.expires:
            _drop_expired(caches, objects, run, marks, deadlines, now)


@inlined
def _access(cache: Any, run: Any, now: float) -> None:
    cache.last_access_at = now
    cache.inflation = run.inflation


@inlined
def _fetch_took(cache: Any, delay_s: float) -> None:
    known = cache.fetch_delay_s
    if known == 0.0:
        cache.fetch_delay_s = delay_s
    else:
        cache.fetch_delay_s = moving_average(known, delay_s, AVERAGE_WEIGHT)


@compiled
def _got(
    cache: Any, run: Any, latencies: Any, now: float,
    hits: int, hit_bytes: int, misses: int, miss_bytes: int, times: int,
) -> None:  # fmt: skip
    """So many gets alike, one after the other."""
    run.hits += hits * times
    run.hit_bytes += hit_bytes * times
    run.misses += misses * times
    run.miss_bytes += miss_bytes * times
    run.gets += times
    latency_s = run.subscriber_rtt_s + (hit_bytes + miss_bytes) / run.subscriber_bytes_per_s
    if misses:
        run.gets_with_miss += times
        fetch_s = run.cluster_rtt_s + miss_bytes / run.cluster_bytes_per_s
        latency_s += fetch_s
        taken_s = (now + fetch_s) - now  # as a clock would tell it
        for _ in range(times):
            before = cache.fetch_delay_s
            _fetch_took(cache, taken_s)
            if cache.fetch_delay_s == before:
                break
    run.latency_s += latency_s * times
    steps = math.log(max(latency_s, SHORTEST_LATENCY_S) / SHORTEST_LATENCY_S)
    latencies[min(int(steps / math.log(LATENCY_RATIO)), LATENCY_BINS - 1)] += times


@compiled
def _make_room(
    cache: Any, caches: Any, objects: Any, run: Any, marks: Any, victims: Any, absences: Any,
    score: Any, size_bytes: int, created_at: float, now: float,
) -> bool:  # fmt: skip
    """As `ResultCache._make_room`: False if the new object is the smallest itself."""
    entries, _, count = victims
    while run.size_bytes + size_bytes > run.budget_bytes:
        _mend_scores(caches, objects, run, marks, victims, absences, score, now)
        if cache.tail == cache.next:
            cache.tail_size_bytes = size_bytes
            cache.tail_created_at = created_at
            cache.tail_cached_at = now
            cache.present = cache.online
            if run.looks_ahead:
                _look_ahead(cache, objects, absences, cache.waiting - cache.online, now)
            if count[0] == 0 or precedes(score(cache), now, cache.backend, entries[0]):
                return False
        run.inflation = entries[0].score
        freed_bytes = _pop(caches[entries[0].key], objects, run, marks, now)
        run.evicted += 1
        run.evicted_bytes += freed_bytes
    return True


@inlined
def _offer(
    cache: Any, caches: Any, objects: Any, run: Any, marks: Any, victims: Any, deadlines: Any,
    absences: Any, memory: Any, score: Any, time_to_live: Any, admit: Any,
    size_bytes: int, created_at: float, now: float,
) -> bool:  # fmt: skip
    """A new object was pulled: is it cached?"""
    run.pulled_bytes += size_bytes
    _fetch_took(cache, now - created_at)
    if cache.next > cache.tail:
        _mark(cache, run, marks)
    if _is_due(run, now):
        _expire(caches, objects, run, marks, deadlines, absences, time_to_live, now)
    if cache.tail == cache.next:
        _access(cache, run, now)
    if run.estimates == 0 and run.size_bytes + size_bytes > run.budget_bytes:
        _estimate(caches, run, marks, absences, time_to_live, now)
    if size_bytes > run.budget_bytes or not admit(memory, cache.attached, run.first, run.second):
        return False
    if not run.evicts:
        return True
    return _make_room(
        cache, caches, objects, run, marks, victims, absences, score, size_bytes, created_at, now
    )


@inlined
def _publish(
    cache: Any, caches: Any, objects: Any, run: Any, marks: Any, victims: Any, deadlines: Any,
    absences: Any, memory: Any, latencies: Any, score: Any, time_to_live: Any, admit: Any,
    size_bytes: int, now: float,
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
    admitted = run.caches and _offer(
        cache, caches, objects, run, marks, victims, deadlines, absences, memory,
        score, time_to_live, admit, size_bytes, created_at, now,
    )  # fmt: skip
    online = cache.online
    if admitted:
        _account(run, now)
        if cache.tail == position:  # those who are connected take it at once
            cache.waiting -= online
            _mark(cache, run, marks)
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
            gone_bytes = _pop(cache, objects, run, marks, now)
            run.dropped += 1
            run.dropped_bytes += gone_bytes
        cache.next = position + 1
        cache.tail = position + 1
        cache.spoiled = cache.waiting - online
    if online > 0:
        if _is_due(run, now):
            _expire(caches, objects, run, marks, deadlines, absences, time_to_live, now)
        _access(cache, run, now)
        _mark(cache, run, marks)
        if cache.tail <= position:
            _got(cache, run, latencies, now, 1, size_bytes, 0, 0, online)
            _consume(cache, objects, run, marks, now)
        else:
            _got(cache, run, latencies, now, 0, 0, 1, size_bytes, online)


@inlined
def _come(
    cache: Any, objects: Any, run: Any, marks: Any, latencies: Any, frontend: Any, now: float
) -> None:
    """A frontend subscription's owner is connected again and gets everything after its marker."""
    marker, end = frontend.marker, cache.next
    if marker < end:
        _access(cache, run, now)
        begin = max(marker, cache.tail)
        upto = objects[cache.first + end - 1].upto_bytes
        before = objects[cache.first + marker - 1].upto_bytes if marker > 0 else 0
        split = objects[cache.first + begin - 1].upto_bytes if begin > 0 else 0
        _got(
            cache, run, latencies, now,
            end - begin, upto - split, begin - marker, split - before, 1,
        )  # fmt: skip
        if begin < end:
            _mark(cache, run, marks)
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
        _consume(cache, objects, run, marks, now)
    else:
        item = objects[cache.first + marker]
        item.standing -= 1
        item.away_since_ms -= away_since_ms


@inlined
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


@inlined
def _subscribe(
    cache: Any, objects: Any, run: Any, frontends: Any, number: int, subscriber: Any, now: float
) -> None:
    frontend = frontends[number]
    frontend.backend = cache.backend
    frontend.before = subscriber.last
    frontend.next = -1
    if subscriber.last >= 0:
        frontends[subscriber.last].next = number
    else:
        subscriber.first = number
    subscriber.last = number
    if cache.attached == 0:
        cache.ttl_s = run.usual_ttl_s
        cache.hold_s = run.hold_s
    cache.attached += 1
    if cache.tail == cache.next:
        cache.waiting += 1
    if subscriber.online:
        cache.online += 1
    else:
        _stand(cache, objects, frontend, now)


@inlined
def _unlink(frontends: Any, frontend: Any, subscriber: Any) -> None:
    if frontend.before >= 0:
        frontends[frontend.before].next = frontend.next
    else:
        subscriber.first = frontend.next
    if frontend.next >= 0:
        frontends[frontend.next].before = frontend.before
    else:
        subscriber.last = frontend.before


@inlined
def _unsubscribe(
    cache: Any, objects: Any, run: Any, marks: Any, frontend: Any, online: int, now: float
) -> None:
    cache.attached -= 1
    marker = frontend.marker
    if online:
        cache.online -= 1
        marker = cache.next
    if cache.tail == cache.next or (not online and marker <= cache.tail):
        cache.waiting -= 1
        if not online:
            cache.away_since_ms -= int(frontend.away_since * 1000)
        if marker < cache.tail:
            cache.spoiled -= 1
        if cache.next > cache.tail:
            _consume(cache, objects, run, marks, now)
            _mark(cache, run, marks)
    elif not online:
        item = objects[cache.first + marker]
        item.standing -= 1
        item.away_since_ms -= int(frontend.away_since * 1000)
    if cache.attached == 0:  # nobody is left: the cache is closed
        _consume(cache, objects, run, marks, now)
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
def _observe_returns(frontends: Any, number: int, absences: Any, now: float) -> None:
    while number >= 0:
        away_s = now - frontends[number].away_since
        if away_s > 0:
            observe(absences[0], absences[1], absences[2], away_s, True)
        number = frontends[number].next


@compiled
def simulate(
    at: Any, kind: Any, subject: Any, value: Any, owners: Any,
    caches: Any, objects: Any, frontends: Any, subscribers: Any, runs: Any, marks: Any,
    victims: Any, deadlines: Any, absences: Any, memories: Any, latencies: Any,
    steps: Any, score: Any, time_to_live: Any, admit: Any,
) -> None:  # fmt: skip
    """Every event in turn; `steps` takes what stands after each, if it has room."""
    run, memory = runs[0], memories[0]
    caches, objects, frontends = borrow(caches), borrow(objects), borrow(frontends)
    marks, latencies, absences = borrow(marks), borrow(latencies), borrow(absences)
    victims = (borrow(victims[0]), borrow(victims[1]), borrow(victims[2]))
    events = 0
    run.usual_ttl_s = LONGEST_TTL_S
    rate_returns(absences[1], absences[2], absences[3])
    for event in range(at.shape[0]):
        now, what, who = at[event], kind[event], subject[event]
        if what == PUBLISH:
            cache = caches[who]
            if cache.attached > 0:
                events += 1
                _publish(
                    cache, caches, objects, run, marks, victims, deadlines, absences, memory,
                    latencies, score, time_to_live, admit, int(value[event]), now,
                )  # fmt: skip
        elif what == SUBSCRIBE:
            events += 1
            cache, subscriber = caches[value[event]], subscribers[owners[who]]
            _subscribe(cache, objects, run, frontends, who, subscriber, now)
        elif what == UNSUBSCRIBE:
            events += 1
            frontend, subscriber = frontends[who], subscribers[owners[who]]
            _unlink(frontends, frontend, subscriber)
            if run.looks_ahead and not subscriber.online:
                observe(absences[0], absences[1], absences[2], now - frontend.away_since, False)
            cache = caches[frontend.backend]
            _unsubscribe(cache, objects, run, marks, frontend, subscriber.online, now)
        else:
            subscriber = subscribers[who]
            subscriber.online = what == ONLINE
            if what == ONLINE and run.looks_ahead:  # before any get: one may re-estimate
                _observe_returns(frontends, subscriber.first, absences, now)
            number = subscriber.first
            while number >= 0:
                events += 1
                frontend = frontends[number]
                cache = caches[frontend.backend]
                if what == ONLINE:
                    if frontend.marker < cache.next and _is_due(run, now):
                        _expire(caches, objects, run, marks, deadlines, absences, time_to_live, now)
                    _come(cache, objects, run, marks, latencies, frontend, now)
                else:
                    cache.online -= 1
                    _stand(cache, objects, frontend, now)
                number = frontend.next
        if steps.shape[0] > 0:
            step = steps[event]
            step.hits = run.hits
            step.misses = run.misses
            step.size_bytes = run.size_bytes
            step.evicted = run.evicted + run.expired + run.consumed + run.dropped
    run.events = events
