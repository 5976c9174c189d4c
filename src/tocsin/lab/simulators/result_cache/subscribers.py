"""Who stands where: subscriptions that begin and end, owners that come and go."""

from __future__ import annotations

from typing import Any

from tocsin.lab.jit.functions import compiled, inlined
from tocsin.lab.simulators.result_cache.caches import access, consume, mark
from tocsin.lab.simulators.result_cache.gets import got
from tocsin.lab.simulators.result_cache.state import EVICTION


@inlined
def subscribe(
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
        stand(cache, objects, frontend, now)


@inlined
def unlink(frontends: Any, frontend: Any, subscriber: Any) -> None:
    if frontend.before >= 0:
        frontends[frontend.before].next = frontend.next
    else:
        subscriber.first = frontend.next
    if frontend.next >= 0:
        frontends[frontend.next].before = frontend.before
    else:
        subscriber.last = frontend.before


@inlined
def unsubscribe(
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
            consume(cache, objects, run, marks, now)
            mark(cache, run, marks)
    elif not online:
        item = objects[cache.first + marker]
        item.standing -= 1
        item.away_since_ms -= int(frontend.away_since * 1000)
    if cache.attached == 0:  # nobody is left: the cache is closed
        consume(cache, objects, run, marks, now)
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


@inlined
def stand(cache: Any, objects: Any, frontend: Any, now: float) -> None:
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
def come(
    cache: Any, objects: Any, run: Any, marks: Any, latencies: Any, frontend: Any, now: float
) -> None:
    """A frontend subscription's owner is connected again and gets everything after its marker."""
    marker, end = frontend.marker, cache.next
    if marker < end:
        access(cache, run, now)
        begin = max(marker, cache.tail)
        upto = objects[cache.first + end - 1].upto_bytes
        before = objects[cache.first + marker - 1].upto_bytes if marker > 0 else 0
        split = objects[cache.first + begin - 1].upto_bytes if begin > 0 else 0
        got(
            cache, run, latencies, now,
            end - begin, upto - split, begin - marker, split - before, 1,
        )  # fmt: skip
        if begin < end:
            mark(cache, run, marks)
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
        consume(cache, objects, run, marks, now)
    else:
        item = objects[cache.first + marker]
        item.standing -= 1
        item.away_since_ms -= away_since_ms


@compiled
def observe_returns(frontends: Any, number: int, policies: Any, absence: Any, now: float) -> None:
    while number >= 0:
        away_s = now - frontends[number].away_since
        if away_s > 0:
            absence(policies[EVICTION], away_s, True)
        number = frontends[number].next
