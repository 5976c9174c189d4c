"""All result caches of a broker under one byte budget.

Eviction policies make room before an object comes in, so the budget holds at every moment; an
expiry policy alone may overshoot it, which is measured. Knows backend subscriptions as numbers
and subscribers by where they stand; who they are, and fetching, is the broker core's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.caching.counters import CacheCounters
from tocsin.caching.lazy_heap import Entry, LazyHeap
from tocsin.caching.suffix import Idle, Standing, Suffix
from tocsin.model import Result
from tocsin.policies import CachePolicy, Candidate
from tocsin.policies.registry import Running
from tocsin.policies.result.estimates import AVERAGE_WEIGHT, REESTIMATE_EVERY_S, moving_average
from tocsin.policies.result.eviction import tie
from tocsin.policies.result.expiry import LONGEST_TTL_S, deadline

MOST_IDLE = 8
"""Subscribers of a backend subscription to which nothing has come. Each that joins or leaves costs
as much as there are."""


class ResultCache:
    def __init__(self, policy: CachePolicy, budget_bytes: int, now: float = 0.0) -> None:
        self.policy = policy
        self.budget_bytes = budget_bytes
        self.counters = CacheCounters()
        self.size_bytes = 0
        self._caches: dict[int, Suffix] = {}
        self._idle: dict[int, Idle] = {}  # those to which nothing has come yet
        self._idle_subscribers = 0
        self._estimated_subscribers = 0.0  # when rates were estimated
        self._evictions: dict[tuple[Any, ...], Running] = {}  # all that were chosen
        self._inflation = 0.0  # score of the last victim
        self.measured_at = now  # of the size integrals
        self._estimated_at = now  # of the arrival and consumption rates
        self._usual_ttl_s = LONGEST_TTL_S  # of caches that were not measured yet
        self._hold_s = 0.0
        self._victims: LazyHeap | None = None
        self._deadlines: LazyHeap | None = None
        self._now = now  # of the present operation
        self._start(policy)

    # -- backend subscriptions and who waits --------------------------------------------------

    def open(self, backend: int, newest: int) -> None:
        """Start an empty cache that goes on after position `newest`."""
        if backend in self._caches or backend in self._idle:
            raise ValueError(f"backend subscription {backend} has a result cache already")
        self._idle[backend] = Idle(newest, self.counters.estimates)

    def _suffix(self, backend: int) -> Suffix:
        """Made when it is first needed: it is as if it had been there from the beginning."""
        suffix = self._caches.get(backend)
        if suffix is not None:
            return suffix
        idle, estimates = self._idle.pop(backend), self.counters.estimates
        self._idle_subscribers -= len(idle.standings)
        suffix = self._caches[backend] = Suffix(backend, idle.newest)
        suffix.measured = estimates - idle.opened
        candidate = suffix.candidate
        candidate.ttl_s, candidate.hold_s = self._usual_ttl_s, self._hold_s
        if suffix.measured > 1 and self._estimated_subscribers:
            share = idle.counted(estimates) / self._estimated_subscribers
            candidate.ttl_s = self._time_to_live(share, float(self.budget_bytes), suffix.growth)
        for who in idle.standings:
            suffix.attach(who)
        return suffix

    def _stays_idle(self, backend: int, more: int = 0) -> Idle | None:
        """If nothing has come, and not too many wait for it: then it is about to change."""
        idle = self._idle.get(backend)
        if idle is None or len(idle.standings) + more > MOST_IDLE:
            return None
        idle.changes(self.counters.estimates)
        return idle

    def close(self, backend: int, now: float) -> None:
        idle = self._idle.pop(backend, None)
        if idle is not None:
            self._idle_subscribers -= len(idle.standings)
            return
        suffix = self._caches[backend]
        self._drop_all(suffix, now)
        del self._caches[backend]
        self._mark(backend)

    def reset(self, backend: int, newest: int, now: float) -> None:
        """A new epoch: nothing cached, every subscriber before the beginning."""
        everyone = self._suffix(backend).everyone
        self.close(backend, now)
        self.open(backend, newest)
        self._suffix(backend).restart(everyone)

    def attach(self, backend: int, who: Standing, now: float) -> None:
        idle = self._stays_idle(backend, 1)
        if idle is not None:
            idle.standings = (*idle.standings, who)
            self._idle_subscribers += 1
            return
        suffix = self._suffix(backend)
        self._settle(suffix, suffix.attach(who), now)

    def detach(self, backend: int, who: Standing, now: float) -> None:
        if who.away_since is not None:
            self._absence_ended(now - who.away_since, returned=False)
        idle = self._stays_idle(backend)
        if idle is not None:
            idle.standings = tuple(other for other in idle.standings if other is not who)
            self._idle_subscribers -= 1
            return
        suffix = self._suffix(backend)
        self._settle(suffix, suffix.detach(who), now)

    def advance(self, backend: int, who: Standing, upto: int, now: float) -> None:
        """It has taken everything up to there."""
        if backend in self._idle:
            who.marker = upto
            return
        suffix = self._caches[backend]
        self._settle(suffix, suffix.advance(who, upto), now)

    def came(self, backend: int, who: Standing, now: float) -> None:
        """It was away and has connected."""
        assert who.away_since is not None
        if now > who.away_since:  # not one that was attached a moment ago to connect now
            self._absence_ended(now - who.away_since, returned=True)
        self._turn(backend, who, None)

    def went(self, backend: int, who: Standing, now: float) -> None:
        """It is away from now on."""
        self._turn(backend, who, now)

    def _absence_ended(self, away_s: float, *, returned: bool) -> None:
        for absence in self._observers:
            absence(away_s, returned)

    def _turn(self, backend: int, who: Standing, away_since: float | None) -> None:
        if backend in self._idle:
            who.away_since = away_since
            return
        suffix = self._caches[backend]
        suffix.detach(who)
        who.away_since = away_since
        if suffix.attach(who):
            self._mark(backend)

    # -- objects ------------------------------------------------------------------------------

    def put(self, result: Result, now: float) -> bool:
        """Append the newest object; False if it was not cached (then nothing older is either)."""
        self.expire(now)
        suffix = self._suffix(result.backend)
        if result.position < suffix.next:
            raise ValueError(
                f"backend subscription {result.backend}: position {suffix.next} comes next, "
                f"not {result.position}"
            )
        suffix.reach(result.position)
        if len(suffix) == 0:
            self._accessed(suffix, now)
        if not self._is_estimated and self.size_bytes + result.size_bytes > self.budget_bytes:
            self._estimate(now)  # the first time that it matters
        if not (self._is_wanted(suffix, result) and self._make_room(suffix, result, now)):
            self._bypass(suffix, result.position, now)
            return False
        self._account(now)
        suffix.append(result, now)
        suffix.arrivals += 1
        suffix.arrival_bytes += result.size_bytes
        self.size_bytes += result.size_bytes
        counters = self.counters
        counters.inserted += 1
        counters.inserted_bytes += result.size_bytes
        counters.max_bytes = max(counters.max_bytes, self.size_bytes)
        ttl_s = suffix.candidate.ttl_s
        if ttl_s < LONGEST_TTL_S:
            counters.ttls += 1
            counters.ttl_s += ttl_s
        if len(suffix) == 1:
            self._mark(result.backend)
        return True

    def skip(self, backend: int, newest: int, now: float) -> None:
        """Results up to `newest` exist but are not here: the suffix must begin after them."""
        suffix = self._suffix(backend)
        self._drop_all(suffix, now)
        suffix.skip(newest)

    def get(
        self, backend: int, after: int, upto: int, now: float, limit: int | None = None
    ) -> list[Result]:
        """The oldest of the cached part of (after, upto]; what lies before `tail(backend)` is
        missed."""
        self.expire(now)
        suffix = self._suffix(backend)
        self._accessed(suffix, now)
        results = suffix.slice(after, upto)[:limit]
        self.counters.hits += len(results)
        self.counters.hit_bytes += sum(len(result.payload) for result in results)
        self._mark(backend)
        return results

    def _accessed(self, suffix: Suffix, now: float) -> None:
        suffix.candidate.last_access_at = now
        suffix.candidate.inflation = self._inflation

    def missed(self, objects: int, size_bytes: int) -> None:
        """What a get had to fetch from the cluster. It is not put back (BAD III.C)."""
        self.counters.misses += objects
        self.counters.miss_bytes += size_bytes

    def fetch_took(self, backend: int, delay_s: float) -> None:
        candidate = self._suffix(backend).candidate
        first = candidate.fetch_delay_s == 0.0
        candidate.fetch_delay_s = (
            delay_s if first else moving_average(candidate.fetch_delay_s, delay_s, AVERAGE_WEIGHT)
        )
        self._mark(backend)

    def tail(self, backend: int) -> int:
        """From here on everything is cached: the oldest cached position, or one in the hole before
        it; the next one to come if nothing is cached."""
        idle = self._idle.get(backend)
        return self._caches[backend].lost + 1 if idle is None else idle.newest + 1

    def contents(self, backend: int) -> list[Result]:
        """Everything cached for one backend subscription, oldest first. Counts as no access."""
        suffix = self._caches.get(backend)
        return [] if suffix is None else suffix.slice(suffix.tail - 1, suffix.next - 1)

    def candidate(self, backend: int) -> Candidate:
        """What policies see of one cache. Its tail fields are old if nothing is cached."""
        suffix = self._suffix(backend)
        return suffix.refresh() if len(suffix) else suffix.candidate

    # -- policy -------------------------------------------------------------------------------

    def set_policy(self, policy: CachePolicy, now: float, budget_bytes: int | None = None) -> None:
        """Switch at run time. What no longer fits leaves; results stay readable from the store."""
        self._account(now)
        if budget_bytes is not None:
            self.budget_bytes = budget_bytes
        self._start(policy)
        if not policy.caches:
            for suffix in self._caches.values():
                self._drop_all(suffix, now)
        self._estimate(now)
        self._now = now
        while self._victims is not None and self.size_bytes > self.budget_bytes:
            victim = self._victims.smallest()
            assert victim is not None
            self._evict(victim, now)
        self.expire(now)

    def _start(self, policy: CachePolicy) -> None:
        """What an eviction policy has learned stays, and it goes on observing while another is
        tried."""
        self.policy = policy
        self._admit = policy.admit.start().call
        self._time_to_live = policy.time_to_live.start().call
        if policy.evict is not None:
            key = policy.evict.policy.name, *policy.evict.values
            running = self._evictions.setdefault(key, policy.evict.start())
            self._score, self._look = running.call, running.hook("look")
        self._observers = self._hooks("absence")
        self._reestimates = self._hooks("reestimate")
        self._build_heaps()

    def _hooks(self, name: str) -> list[Callable[..., Any]]:
        hooks = [running.hook(name) for running in self._evictions.values()]
        return [hook for hook in hooks if hook is not None]

    def expire(self, now: float) -> None:
        """Drop what is past its time to live, and re-estimate when that is due."""
        self._drop_expired(now)
        if now - self._estimated_at >= REESTIMATE_EVERY_S:
            self._estimate(now)
            self._drop_expired(now)

    def _drop_expired(self, now: float) -> None:
        if self._deadlines is None:
            return
        while (first := self._deadlines.smallest()) is not None and first[0] <= now:
            size_bytes = self._pop(self._caches[first[2]], now)
            self.counters.expired += 1
            self.counters.expired_bytes += size_bytes

    @property
    def _is_estimated(self) -> bool:
        return self.counters.estimates > 0

    def _estimate(self, now: float) -> None:
        """Moving averages, and the TTL of every cache (BAD IV.B, equation 7).

        What one cache grows by is known after a whole interval, what all of them grow by much
        sooner: until then the usual time to live holds, which fills the budget just as well.
        """
        elapsed_s = now - self._estimated_at
        if elapsed_s <= 0:
            return
        self._estimated_at = now
        counters, budget_bytes = self.counters, float(self.budget_bytes)
        time_to_live = self._time_to_live
        subscribers = float(self._idle_subscribers)
        arrival = grown = planned_bytes = 0.0
        ordered = sorted(self._caches)  # sums of floats depend on the order
        for backend in ordered:
            suffix = self._caches[backend]
            suffix.measure(elapsed_s)
            subscribers += suffix.everyone.subscribers
            arrival += suffix.candidate.arrival_bytes_per_s
            grown += suffix.growth
        self._estimated_subscribers = subscribers
        self._usual_ttl_s = time_to_live(1.0, budget_bytes, grown)
        self._hold_s = budget_bytes / arrival if arrival > 0 else 0.0
        for backend in ordered:
            suffix = self._caches[backend]
            candidate = suffix.candidate
            rate = suffix.growth
            candidate.ttl_s = self._usual_ttl_s
            if suffix.measured > 1 and subscribers:
                share = suffix.everyone.subscribers / subscribers
                candidate.ttl_s = time_to_live(share, budget_bytes, rate)
            candidate.hold_s = self._hold_s
            planned_bytes += rate * candidate.ttl_s
            self._mark(backend)
        for reestimate in self._reestimates:
            reestimate()
        counters.estimates += 1
        counters.planned_bytes += planned_bytes

    def _is_wanted(self, suffix: Suffix, result: Result) -> bool:
        waiting = suffix.waiting_for_next
        if waiting == 0 or result.size_bytes > self.budget_bytes:
            return False
        return bool(self._admit(waiting))

    def _make_room(self, suffix: Suffix, result: Result, now: float) -> bool:
        """Evict smallest scores until `result` fits; False if it is the smallest itself.

        The same victims as in BAD, Algorithm 1: "append, then drop while full", without the excess.
        """
        if self._victims is None:
            return True
        self._now = now
        while self.size_bytes + result.size_bytes > self.budget_bytes:
            victim = self._victims.smallest()
            if len(suffix) == 0:
                suffix.describe(result, now)
                own = self._entry(suffix)
                if victim is None or own < victim:
                    return False
            assert victim is not None
            self._evict(victim, now)
        return True

    def _evict(self, victim: Entry, now: float) -> None:
        self._inflation = victim[0]
        size_bytes = self._pop(self._caches[victim[2]], now)
        self.counters.evicted += 1
        self.counters.evicted_bytes += size_bytes

    # -- what all of these share ----------------------------------------------------------------

    def _build_heaps(self) -> None:
        self._victims = LazyHeap(self._victim_entry) if self.policy.evict else None
        self._deadlines = LazyHeap(self._deadline_entry) if self.policy.expire else None
        for backend in self._caches:
            self._mark(backend)

    def _mark(self, backend: int) -> None:
        if self._victims is not None:
            self._victims.mark(backend)
        if self._deadlines is not None:
            self._deadlines.mark(backend)

    def _victim_entry(self, backend: int) -> Entry | None:
        suffix = self._caches.get(backend)
        if not suffix:
            return None
        suffix.refresh()
        return self._entry(suffix)

    def _deadline_entry(self, backend: int) -> Entry | None:
        suffix = self._caches.get(backend)
        if not suffix:
            return None
        candidate = suffix.refresh()
        return (deadline(candidate), *tie(candidate))

    def _entry(self, suffix: Suffix) -> Entry:
        """The suffix as eviction sees it; its candidate was just described."""
        suffix.candidate.now = self._now
        if self._look is not None:
            suffix.show(self._look)
        return (self._score(suffix.candidate), *tie(suffix.candidate))

    def _settle(self, suffix: Suffix, changed: bool, now: float) -> None:
        """Tail objects that nobody waits for any longer leave."""
        if not changed:
            return
        while suffix.waiting.subscribers == 0 and len(suffix):
            size_bytes = self._pop(suffix, now)
            suffix.consumption_bytes += size_bytes
            self.counters.consumed += 1
            self.counters.consumed_bytes += size_bytes
        self._mark(suffix.candidate.backend)

    def _bypass(self, suffix: Suffix, position: int, now: float) -> None:
        self.counters.bypassed += 1
        self._drop_all(suffix, now)
        suffix.skip(position)

    def _drop_all(self, suffix: Suffix, now: float) -> None:
        while len(suffix):
            self.counters.dropped += 1
            self.counters.dropped_bytes += self._pop(suffix, now)

    def _pop(self, suffix: Suffix, now: float) -> int:
        self._account(now)
        result, cached_at = suffix.pop_tail()
        size_bytes = result.size_bytes
        self.size_bytes -= size_bytes
        self.counters.held_s += now - cached_at
        self._mark(suffix.candidate.backend)
        return size_bytes

    def _account(self, now: float) -> None:
        elapsed_s = now - self.measured_at
        if elapsed_s > 0:
            self.counters.byte_s += self.size_bytes * elapsed_s
            excess_bytes = max(0, self.size_bytes - self.budget_bytes)
            self.counters.overshoot_byte_s += excess_bytes * elapsed_s
            self.measured_at = now
