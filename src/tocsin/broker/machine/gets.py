"""Gets: the cached suffix, the store for the missed part, one ordered answer.

Gets that miss the same range share one fetch. What was fetched for a get is not cached (BAD III.C).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from tocsin.broker.machine.effects import Answer, Effect, Fail, Gap
from tocsin.broker.machine.events import RangeAnswer
from tocsin.broker.machine.results import Fetches, Fetching
from tocsin.broker.machine.subscription_table import Backend, Get, SubscriptionTable
from tocsin.caching import ResultCache
from tocsin.errors import NotFound, TocsinError, Unavailable
from tocsin.model import Result


class Part(NamedTuple):
    """What was fetched for a get, and up to where the answer reaches with it."""

    upto: int
    results: Sequence[Result] = ()
    gap: Gap | None = None
    from_neighbours: int = 0


class Gets:
    def __init__(self, cache: ResultCache, table: SubscriptionTable, fetches: Fetches) -> None:
        self._cache = cache
        self._table = table
        self._fetches = fetches
        self._missed: dict[tuple[Backend, str, int, int], list[Get]] = {}
        self._polls: list[tuple[float, int, Get]] = []  # heap: gets that wait for results
        self._poll_count = 0

    def start(self, get: Get, now: float, effects: list[Effect]) -> None:
        frontend = self._table.frontends.get(get.subscription)
        if frontend is None or frontend.subscriber != get.subscriber:
            effects.append(Fail(get.request, unknown_subscription(get.subscription)))
            return
        backend = frontend.backend
        other_epoch = get.epoch is not None and get.epoch != backend.epoch
        begin = frontend.marker if get.after is None else max(get.after, 0)
        if other_epoch:
            begin = 0  # positions of different epochs cannot be compared
            get.wait_until = None
        if begin >= backend.fetched and self._poll(get, backend, now):
            return
        get.epoch = backend.epoch
        get.begin = get.after = begin
        last = (
            backend.fetched
            if backend.filter is not None
            else min(begin + get.limit, backend.fetched)
        )
        get.upto = max(begin, last)
        get.cached = self._cache.get(backend.id, begin, get.upto, now, get.limit)
        if len(get.cached) == get.limit:
            get.upto = get.cached[-1].position
        get.tail = self._cache.tail(backend.id)
        missed_upto = min(get.tail - 1, get.upto)
        if missed_upto > begin:
            self._fetch(get, backend, missed_upto, now, effects)
        else:
            self._answer(get, backend, Part(get.upto), now, effects)

    def _fetch(
        self, get: Get, backend: Backend, upto: int, now: float, effects: list[Effect]
    ) -> None:
        sharing = self._missed.setdefault((backend, backend.epoch, get.begin, upto), [])
        sharing.append(get)
        if len(sharing) == 1:
            effects.append(self._fetches.start(backend, get.begin, upto, now, sharing))

    def fetched(
        self, fetching: Fetching, answer: RangeAnswer, now: float, effects: list[Effect]
    ) -> None:
        held = self._table.holds(fetching.backend)
        for get in self._end(fetching):
            if held and get.epoch == answer.epoch == fetching.backend.epoch:
                self._complete(get, fetching, answer, now, effects)
            else:  # the epoch changed meanwhile, or the subscription left: look again
                self.start(get, now, effects)

    def failed(self, fetching: Fetching, effects: list[Effect]) -> None:
        effects += [_again(get, "the cluster did not answer") for get in self._end(fetching)]

    def _end(self, fetching: Fetching) -> list[Get]:
        gets = fetching.gets or []
        if gets and gets[0].epoch is not None:
            key = (fetching.backend, gets[0].epoch, fetching.after, fetching.upto)
            del self._missed[key]
        return gets

    def _complete(
        self,
        get: Get,
        fetching: Fetching,
        answer: RangeAnswer,
        now: float,
        effects: list[Effect],
    ) -> None:
        reached, gap = get.begin, None
        if answer.floor > get.begin:
            # Retention took them; what is still cached here can be served nevertheless.
            reached = min(answer.floor, get.tail - 1)
            gap = Gap(get.begin + 1, reached)
        results = [result for result in answer.results if result.position > reached]
        if answer.upto is not None:
            reached = max(reached, answer.upto)
        elif any(result.position != reached + n for n, result in enumerate(results, 1)):
            effects.append(_again(get, "the cluster's answer had a hole"))
            return
        else:
            reached += len(results)
        self._cache.missed(len(results), sum(result.size_bytes for result in results))
        if reached == get.begin:
            effects.append(_again(get, "the cluster had no results"))
            return
        if reached < fetching.upto:
            get.cached = []  # the cluster gave less than asked: the cached part comes next time
        upto = max(reached, get.upto) if reached >= fetching.upto else reached
        stored = len(results) - min(answer.from_neighbours, len(results))
        if len(results) + len(get.cached) > get.limit:  # of a filter: nobody knew how many
            results = results[: get.limit]
            get.cached = get.cached[: get.limit - len(results)]
            upto = (results + get.cached)[-1].position
        from_neighbours = max(0, len(results) - stored)
        part = Part(upto, results, gap, from_neighbours)
        self._answer(get, fetching.backend, part, now, effects)

    def _answer(
        self, get: Get, backend: Backend, part: Part, now: float, effects: list[Effect]
    ) -> None:
        upto, fetched, gap, from_neighbours = part
        if upto >= backend.fetched and not fetched and not get.cached and gap is None:
            get.after = upto  # of a filter: nothing matched on the way there
            if self._poll(get, backend, now):
                return
        answer = Answer(
            request=get.request,
            subscription=get.subscription,
            backend=backend.id,
            epoch=backend.epoch,
            after=get.begin,
            upto=upto,
            head=backend.fetched,
            gap=gap,
            cached=len(get.cached),
            fetched=len(fetched) - from_neighbours,
            results=[*fetched, *get.cached],
            from_neighbours=from_neighbours,
        )
        self._table.watcher.answered(answer)
        effects.append(answer)

    def abandon(self, error: TocsinError) -> list[Effect]:
        """Whoever waits hears why there will be no answer."""
        missed = [get for sharing in self._missed.values() for get in sharing]
        polls = [get for _, _, get in self._polls if not get.done]
        return [Fail(get.request, error) for get in [*missed, *polls]]

    # -- gets that wait until there is something -------------------------------------------------

    def _poll(self, get: Get, backend: Backend, now: float) -> bool:
        if get.wait_until is None or get.wait_until <= now:
            return False
        self._poll_count += 1
        heapq.heappush(self._polls, (get.wait_until, self._poll_count, get))
        backend.polls = (*backend.polls, get)
        return True

    def grown(self, backend: Backend, now: float, effects: list[Effect]) -> None:
        polls, backend.polls = backend.polls, ()
        for get in polls:
            self._wake(get, now, effects)

    def expire(self, now: float, effects: list[Effect]) -> None:
        while self._polls and self._polls[0][0] <= now:
            self._wake(heapq.heappop(self._polls)[2], now, effects)

    def _wake(self, get: Get, now: float, effects: list[Effect]) -> None:
        if not get.done:
            get.done = True
            get.wait_until = None
            self.start(get, now, effects)


def unknown_subscription(number: int) -> NotFound:
    return NotFound(
        f"no subscription {number} of yours is served by this broker",
        hint="connect to this broker first, or ask the one you are connected to",
    )


def _again(get: Get, reason: str) -> Fail:
    return Fail(get.request, Unavailable(f"results cannot be read now: {reason}", hint="ask again"))
