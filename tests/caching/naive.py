"""BAD, Algorithm 1 as printed: explicit subscriber sets, scans, append and then drop.

What `ResultCache` must equal. Knows every subscriber by number and computes everything anew from
the sets; it shares with the real cache the policies' own functions, but for the run of oldest
objects that `return-rate` looks at: that is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tocsin.model import Result
from tocsin.policies import CachePolicy, Candidate
from tocsin.policies.result.estimates import (
    AVERAGE_WEIGHT,
    REESTIMATE_EVERY_S,
    growth,
    moving_average,
)
from tocsin.policies.result.eviction import tie
from tocsin.policies.result.eviction.return_rate import FIRST_MISS_PER_S, LOOK_AHEAD, Absences
from tocsin.policies.result.expiry import LONGEST_TTL_S


@dataclass
class Subscriber:
    marker: int
    away_since: float | None  # None: connected


@dataclass
class Cached:
    result: Result
    cached_at: float
    subscribers: set[int]  # that have not taken it


@dataclass
class Rates:
    arrival_bytes: float = 0.0
    arrivals: float = 0.0
    consumption_bytes: float = 0.0

    @property
    def growth(self) -> float:
        return growth(self.arrival_bytes, self.consumption_bytes)


@dataclass
class NaiveCache:
    newest: int
    lost: int  # what is not here any more, or never was, up to here
    ttl_s: float
    hold_s: float
    subscribers: dict[int, Subscriber] = field(default_factory=dict)
    objects: list[Cached] = field(default_factory=list)
    last_access_at: float = 0.0
    inflation: float = 0.0
    fetch_delay_s: float = 0.0
    arrived: list[Result] = field(default_factory=list)  # since the last estimate
    consumed: list[Result] = field(default_factory=list)
    measured: int = 0
    rates: Rates = field(default_factory=Rates)
    score: float | None = (
        None  # of policies that look ahead; None: something touched the cache since
    )

    @property
    def tail(self) -> int:
        """Who stands before it waits for the oldest object."""
        return self.objects[0].result.position if self.objects else self.newest + 1


class NaiveCaches:
    def __init__(self, policy: CachePolicy, budget_bytes: int) -> None:
        self.policy = policy
        self.budget_bytes = budget_bytes
        self.caches: dict[int, NaiveCache] = {}
        self.admit = policy.admit.start().call
        self.time_to_live = policy.time_to_live.start().call
        self.eviction = policy.evict.start() if policy.evict else None
        self.inflation = 0.0
        self.estimated_at = 0.0
        self.usual_ttl_s, self.hold_s = LONGEST_TTL_S, 0.0
        self.estimates = self.hits = 0
        self.inserted = self.bypassed = 0
        self.evicted = self.expired = self.consumed = self.dropped = 0

    @property
    def size_bytes(self) -> int:
        return sum(o.result.size_bytes for c in self.caches.values() for o in c.objects)

    # -- who waits ---------------------------------------------------------------------------

    def open(self, backend: int, newest: int) -> None:
        self.caches[backend] = NaiveCache(newest, newest, self.usual_ttl_s, self.hold_s)

    def close(self, backend: int) -> None:
        self._drop_all(self.caches.pop(backend))

    def reset(self, backend: int, newest: int) -> None:
        """A new epoch: everyone before its beginning."""
        subscribers = self.caches[backend].subscribers
        self.close(backend)
        self.open(backend, newest)
        for number, one in subscribers.items():
            self.attach(backend, number, Subscriber(0, one.away_since))

    def attach(self, backend: int, number: int, one: Subscriber) -> None:
        cache = self.caches[backend]
        cache.subscribers[number] = one
        for o in cache.objects:
            if o.result.position > one.marker:
                o.subscribers.add(number)
        self._touched_by(cache, one)

    def detach(self, backend: int, number: int, now: float) -> None:
        cache = self.caches[backend]
        gone = cache.subscribers.pop(number)
        if gone.away_since is not None:
            self._absence_ended(now - gone.away_since, returned=False)
        for o in cache.objects:
            o.subscribers.discard(number)
        self._touched_by(cache, gone)
        self._consume(cache)

    def ack(self, backend: int, number: int, position: int) -> None:
        cache = self.caches[backend]
        self._touched_by(cache, cache.subscribers[number])
        cache.subscribers[number].marker = position
        for o in cache.objects:
            if o.result.position <= position:
                o.subscribers.discard(number)
        self._consume(cache)

    def come(self, backend: int, number: int, now: float) -> None:
        one = self.caches[backend].subscribers[number]
        assert one.away_since is not None
        if now > one.away_since:
            self._absence_ended(now - one.away_since, returned=True)
        one.away_since = None
        self._touched_by(self.caches[backend], one)

    def go(self, backend: int, number: int, now: float) -> None:
        one = self.caches[backend].subscribers[number]
        one.away_since = now
        self._touched_by(self.caches[backend], one)

    def _absence_ended(self, away_s: float, *, returned: bool) -> None:
        absence = self.eviction.hook("absence") if self.eviction else None
        if absence is not None:
            absence(away_s, returned)

    def _touched_by(self, cache: NaiveCache, one: Subscriber) -> None:
        """Scores are looked at again when something happened to those who wait for the tail."""
        if one.marker < cache.tail:
            cache.score = None

    def _consume(self, cache: NaiveCache) -> None:
        for o in [o for o in cache.objects if not o.subscribers]:
            self._drop(cache, o)
            cache.consumed.append(o.result)
            self.consumed += 1

    # -- objects -----------------------------------------------------------------------------

    def put(self, result: Result, now: float) -> None:
        self.expire(now)
        cache = self.caches[result.backend]
        if not cache.objects:
            self._access(cache, now)
        if not self.estimates and self.size_bytes + result.size_bytes > self.budget_bytes:
            self._estimate(now)
        cache.newest = result.position
        waiting = {n for n, one in cache.subscribers.items() if one.marker < result.position}
        fits = result.size_bytes <= self.budget_bytes
        if not waiting or not fits or not self.admit(len(waiting)):
            self.bypassed += 1
            self._drop_all(cache)
            cache.lost = result.position
            return
        new = Cached(result, now, waiting)
        cache.objects.append(new)
        if self.policy.evict is not None and not self._drop_while_full(new, now):
            self.bypassed += 1
            return
        cache.arrived.append(result)
        self.inserted += 1
        if cache.objects == [new]:
            cache.score = None

    def _drop_while_full(self, new: Cached, now: float) -> bool:
        """False if the new object was dropped itself: it never was in."""
        while self.size_bytes > self.budget_bytes:
            scored = [
                (self._score(backend, new, now), *tie(self.candidate(backend)))
                for backend, cache in self.caches.items()
                if cache.objects
            ]
            score, _, backend = min(scored)
            victim = self.caches[backend].objects[0]
            self._drop(self.caches[backend], victim)
            if victim is new:
                return False
            self.evicted += 1
            self.inflation = score
        return True

    def get(
        self, backend: int, after: int, upto: int, now: float, limit: int | None
    ) -> list[Result]:
        self.expire(now)
        cache = self.caches[backend]
        self._access(cache, now)
        found = [o.result for o in cache.objects if after < o.result.position <= upto][:limit]
        self.hits += len(found)
        return found

    def skip(self, backend: int, newest: int) -> None:
        cache = self.caches[backend]
        self._drop_all(cache)
        cache.lost = max(cache.lost, newest) if newest > cache.newest else cache.lost
        cache.newest = newest

    def fetch_took(self, backend: int, delay_s: float) -> None:
        cache = self.caches[backend]
        known = cache.fetch_delay_s
        cache.fetch_delay_s = moving_average(known, delay_s, AVERAGE_WEIGHT) if known else delay_s
        cache.score = None

    def _access(self, cache: NaiveCache, now: float) -> None:
        cache.last_access_at = now
        cache.inflation = self.inflation
        cache.score = None

    def _drop(self, cache: NaiveCache, o: Cached) -> None:
        cache.objects.remove(o)
        cache.lost = o.result.position
        cache.score = None

    def _drop_all(self, cache: NaiveCache) -> None:
        self.dropped += len(cache.objects)
        if cache.objects:
            cache.lost = cache.objects[-1].result.position
        cache.objects.clear()
        cache.score = None

    # -- what policies see -------------------------------------------------------------------

    def candidate(self, backend: int) -> Candidate:
        """Of a cache that is not empty."""
        cache = self.caches[backend]
        tail, everyone = cache.objects[0], cache.subscribers.values()
        rates = cache.rates
        waiting = [cache.subscribers[number] for number in tail.subscribers]
        left_at = [one.away_since for one in waiting if one.away_since is not None]
        return Candidate(
            backend=backend,
            attached=len(everyone),
            online=len([one for one in everyone if one.away_since is None]),
            waiting=len(waiting),
            present=len([one for one in waiting if one.away_since is None]),
            spoiled=len([one for one in waiting if one.marker < cache.lost]),
            away_since_ms=sum(int(at * 1000) for at in left_at),
            tail_size_bytes=tail.result.size_bytes,
            tail_created_at=tail.result.created_at,
            tail_cached_at=tail.cached_at,
            last_access_at=cache.last_access_at,
            inflation=cache.inflation,
            fetch_delay_s=cache.fetch_delay_s,
            ttl_s=cache.ttl_s,
            arrival_bytes_per_s=rates.arrival_bytes,
            arrivals_per_s=rates.arrivals,
            hold_s=cache.hold_s,
        )

    def _score(self, backend: int, new: Cached, now: float) -> float:
        cache = self.caches[backend]
        assert self.eviction is not None
        candidate = self.candidate(backend)
        candidate.now = now
        if not isinstance(self.eviction.state, Absences):
            return float(self.eviction.call(candidate))
        if cache.score is None:
            self._look_ahead(cache, new, self.eviction.state)
            cache.score = float(self.eviction.call(candidate))
        return cache.score

    def _look_ahead(self, cache: NaiveCache, new: Cached, state: Absences) -> None:
        """The cheapest run that the tail heads."""
        runs, worth, size_bytes, before = [], 0.0, 0, cache.lost
        for o in cache.objects[:LOOK_AHEAD]:
            if o is new and cache.objects[0] is not new:
                break  # it is not there yet
            # A delivery for each who waits, a wait for the cluster for each who would begin here.
            begin = [n for n in o.subscribers if cache.subscribers[n].marker >= before]
            before = o.result.position
            worth += len(o.subscribers) + FIRST_MISS_PER_S * cache.fetch_delay_s * len(begin)
            size_bytes += o.result.size_bytes
            runs.append((worth, size_bytes))
        worth, size_bytes = min(runs, key=lambda run: Fraction(run[0]) / run[1])
        state.least_worth, state.least_bytes = worth, size_bytes

    # -- time --------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        self._drop_expired(now)
        if now - self.estimated_at >= REESTIMATE_EVERY_S:
            self._estimate(now)
            self._drop_expired(now)

    def _drop_expired(self, now: float) -> None:
        for cache in self.caches.values() if self.policy.expire is not None else ():
            while cache.objects and cache.objects[0].cached_at + cache.ttl_s <= now:
                self._drop(cache, cache.objects[0])
                self.expired += 1

    def _estimate(self, now: float) -> None:
        elapsed_s = now - self.estimated_at
        if elapsed_s == 0:
            return
        self.estimated_at = now
        self.estimates += 1
        reestimate = self.eviction.hook("reestimate") if self.eviction else None
        if reestimate is not None:
            reestimate()
        arriving = grown = 0.0  # `sum` would round otherwise
        caches = [self.caches[backend] for backend in sorted(self.caches)]
        for cache in caches:
            cache.rates = _measured(cache, elapsed_s)
            cache.measured += 1
            arriving += cache.rates.arrival_bytes
            grown += cache.rates.growth
            cache.arrived, cache.consumed, cache.score = [], [], None
        self.hold_s = self.budget_bytes / arriving if arriving else 0.0
        everyone = sum(len(cache.subscribers) for cache in caches)
        time_to_live, budget_bytes = self.time_to_live, float(self.budget_bytes)
        self.usual_ttl_s = time_to_live(1.0, budget_bytes, grown)
        for cache in caches:
            cache.ttl_s, cache.hold_s = self.usual_ttl_s, self.hold_s
            if cache.measured > 1 and everyone:  # a whole interval, from one estimate to the next
                share = len(cache.subscribers) / everyone
                cache.ttl_s = time_to_live(share, budget_bytes, cache.rates.growth)


def _measured(cache: NaiveCache, elapsed_s: float) -> Rates:
    """Moving averages; they begin with the first whole interval."""
    new = Rates(
        sum(result.size_bytes for result in cache.arrived) / elapsed_s,
        len(cache.arrived) / elapsed_s,
        sum(result.size_bytes for result in cache.consumed) / elapsed_s,
    )
    old, weight = cache.rates, AVERAGE_WEIGHT if cache.measured > 1 else 1.0
    return Rates(
        moving_average(old.arrival_bytes, new.arrival_bytes, weight),
        moving_average(old.arrivals, new.arrivals, weight),
        moving_average(old.consumption_bytes, new.consumption_bytes, weight),
    )
