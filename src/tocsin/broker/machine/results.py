"""New results on their way into the cache, and word of them to those who are online.

Knows one thing per backend subscription: `fetched`, the newest position that was cached or
deliberately passed over. Nobody hears of a result beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tocsin.backoff import delay_s
from tocsin.broker.machine.effects import Effect, Fetch, NewPages, SendInline, Signal
from tocsin.broker.machine.events import RangeAnswer
from tocsin.broker.machine.subscription_table import Backend, Get, SubscriptionTable
from tocsin.caching import ResultCache
from tocsin.model import Result

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
AHEAD_BYTES_AT_MOST = 4 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Fetching:
    """A fetch under way."""

    backend: Backend
    after: int
    upto: int
    event: int  # when it was asked, in the core's events
    at: float
    gets: list[Get] | None  # those that wait for it; None: it fills the cache


class Fetches:
    """Fetches under way, by number."""

    def __init__(self, table: SubscriptionTable, limit: int) -> None:
        self.limit = limit
        self._table = table
        self._last = 0
        self._under_way: dict[int, Fetching] = {}

    def start(
        self, backend: Backend, after: int, upto: int, now: float, gets: list[Get] | None
    ) -> Fetch:
        self._last += 1
        event = self._table.next_event()
        self._under_way[self._last] = Fetching(backend, after, upto, event, now, gets)
        return Fetch(self._last, backend.id, after, upto, self.limit, gets is None)

    def end(self, fetch: int) -> Fetching | None:
        return self._under_way.pop(fetch, None)


class Ahead:
    """Results that came while those before them are fetched: with these they are taken. Without
    them each fetch would end behind the newest, and the next one begin. Bounded in bytes: what
    finds no room is fetched as well."""

    def __init__(self) -> None:
        self._results: dict[Backend, tuple[str, list[Result]]] = {}  # of an epoch
        self._left_bytes = AHEAD_BYTES_AT_MOST

    def keep(self, backend: Backend, results: list[Result]) -> None:
        known = self.pop(backend)
        if known and known[-1].position + 1 == results[0].position:
            known += results
        kept = known or results
        size_bytes = sum(result.size_bytes for result in kept)
        if size_bytes <= self._left_bytes:
            self._left_bytes -= size_bytes
            self._results[backend] = backend.epoch, kept

    def pop(self, backend: Backend) -> list[Result]:
        """None of an epoch that is past."""
        epoch, results = self._results.pop(backend, ("", []))
        self._left_bytes += sum(result.size_bytes for result in results)
        return results if epoch == backend.epoch else []


class ResultIntake:
    def __init__(
        self,
        cache: ResultCache,
        table: SubscriptionTable,
        fetches: Fetches,
        grown: Callable[[Backend, float, list[Effect]], None],
    ) -> None:
        self._cache = cache
        self._table = table
        self._fetches = fetches
        self._grown = grown  # called when more results of a backend subscription can be had
        self._retries: dict[Backend, float] = {}
        self._ahead = Ahead()

    def hear(
        self,
        backend: Backend,
        head: int,
        pushed: Sequence[Result],
        now: float,
        effects: list[Effect],
    ) -> None:
        """Results up to `head` exist; an older head than the known one says nothing. Those of a
        filter come by routing, whoever tells of them."""
        backend.head = max(backend.head, head)
        if backend.filter is None:
            self._take(backend, pushed, now, effects)
            self._go_on(backend, now, effects)

    def routed(self, backend: Backend, result: Result, now: float, effects: list[Effect]) -> None:
        """The next result of a filter: there is none between it and where we are."""
        if result.position > backend.fetched:
            self._put(backend, [result], now, effects)

    def lost(self, backend: Backend, upto: int, now: float, effects: list[Effect]) -> None:
        """Of a filter's results up to there, some may be gone: whoever gets them will hear it."""
        if upto > backend.fetched:
            self._pass_over(backend, upto, now, effects)

    def fill(
        self, fetching: Fetching, answer: RangeAnswer | None, now: float, effects: list[Effect]
    ) -> None:
        """The answer to a fetch ahead; None if it was of a past epoch."""
        backend = fetching.backend
        if answer is None:
            self._ahead.pop(backend)
        backend.fetching = False
        before = backend.fetched
        if answer is not None:
            if answer.floor > backend.fetched:
                self._pass_over(backend, answer.floor, now, effects)
            self._take(backend, answer.results, now, effects)
            self._take(backend, self._ahead.pop(backend), now, effects)
            backend.head = max(backend.head, answer.head)
            if backend.fetched == before == fetching.after < backend.head:
                self.retry_later(backend, now)  # nothing gained: do not ask in circles
                return
        backend.failures = 0
        self._go_on(backend, now, effects)

    def retry_later(self, backend: Backend, now: float) -> None:
        self._ahead.pop(backend)
        if not self._table.holds(backend):
            return
        wait_s = delay_s(backend.failures, FIRST_RETRY_S, LONGEST_RETRY_S)
        backend.fetching = True
        backend.failures += 1
        self._retries[backend] = now + wait_s

    def retry(self, now: float, effects: list[Effect]) -> None:
        for backend in [failed for failed, at in self._retries.items() if at <= now]:
            del self._retries[backend]
            if self._table.holds(backend):
                backend.fetching = False
                self._go_on(backend, now, effects)

    def _go_on(self, backend: Backend, now: float, effects: list[Effect]) -> None:
        """Get what is known to exist; at most one fetch at a time, newer heads conflate."""
        if backend.fetched >= backend.head:
            return
        if not self._cache.policy.caches and not backend.inline:
            self._pass_over(backend, backend.head, now, effects)
        elif not backend.fetching:
            backend.fetching = True
            effects.append(self._fetches.start(backend, backend.fetched, backend.head, now, None))

    def gone(self, backend: Backend) -> None:
        """A fetch has ended for nobody."""
        self._ahead.pop(backend)

    def _take(
        self, backend: Backend, results: Sequence[Result], now: float, effects: list[Effect]
    ) -> None:
        """Cache results that continue where we are, then tell. Others change nothing."""
        after = backend.fetched
        fresh = [result for result in results if result.position > after]
        if not fresh:
            return
        first = fresh[0].position
        if len(fresh) > 1 and any(r.position != first + n for n, r in enumerate(fresh)):
            return
        if first == after + 1:
            self._put(backend, fresh, now, effects)
        elif backend.fetching:
            self._ahead.keep(backend, fresh)

    def _put(
        self, backend: Backend, fresh: list[Result], now: float, effects: list[Effect]
    ) -> None:
        after, head = backend.fetched, fresh[-1].position
        self._table.watcher.taken(backend, fresh)
        for result in fresh:
            self._cache.put(result, now)
        backend.fetched = head
        backend.head = max(backend.head, head)
        if backend.pages:
            count = len(backend.frontends)
            effects.append(NewPages(backend.channel, count, fresh, backend.pages, backend.keys))
        if backend.inline:
            inline = list(backend.inline)
            effects.append(SendInline(backend.id, backend.epoch, after, head, fresh, inline))
        if backend.signalled:
            effects.append(Signal(backend.id, backend.epoch, head, list(backend.signalled)))
        self._grown(backend, now, effects)

    def _pass_over(self, backend: Backend, upto: int, now: float, effects: list[Effect]) -> None:
        """Results up to there are not cached here: gets read them from the store."""
        self._table.watcher.passed_over(backend, upto)
        self._cache.skip(backend.id, upto, now)
        backend.fetched = upto
        backend.head = max(backend.head, upto)
        listening = [*backend.signalled, *backend.inline]
        if listening:
            effects.append(Signal(backend.id, backend.epoch, upto, listening))
        self._grown(backend, now, effects)
