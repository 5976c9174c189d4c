"""Results from neighbours' result caches: what one has of what is missed here, and how that joins
what the store adds.

A fetch that somebody waits for is first a question to all neighbours. It is decided when all have
answered, or when their time is over.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import Fetch
from tocsin.broker.machine.events import RangeAnswer
from tocsin.model import Result
from tocsin.overlay.routing import Asked, ResultsFound, ResultsWanted, Router, RoutingEffect

MOST_BYTES = 256 * 1024
"""In one answer: results must not hold up what is routed over the same link."""

ANSWER_S = 0.1
"""How long neighbours may take to say what they have."""


class NeighbourResults(Struct, frozen=True):
    """All results in (after, upto], from a neighbour."""

    epoch: str
    after: int
    upto: int
    results: list[Result]

    def behind(self, stored: RangeAnswer | None) -> RangeAnswer:
        """One answer with what the store has of what is before; as much as has no hole."""
        count = len(self.results)
        if stored is None:
            return RangeAnswer(self.epoch, 0, self.upto, self.results, self.upto, count)
        reached = stored.upto
        if reached is None:
            reached = stored.results[-1].position if stored.results else stored.floor
        if stored.epoch != self.epoch or reached < self.after:
            return stored
        return RangeAnswer(
            self.epoch,
            min(stored.floor, self.after),  # what the store has lost, the neighbour may have
            stored.head,
            [*stored.results, *self.results],
            self.upto,
            count,
        )


def cached_part(
    core: BrokerCore, wanted: ResultsWanted, most_bytes: int = MOST_BYTES
) -> ResultsFound:
    """What the cache here has of what a neighbour wants: the newest part of it, whole."""
    backend = core.table.backends.get(wanted.backend)
    if backend is None or backend.epoch != wanted.epoch:
        return ResultsFound(wanted.question, wanted.upto, wanted.upto)
    # Of a filter, its last match counts, even if records after it were looked at.
    upto = min(wanted.upto, backend.fetched)
    after = min(upto, max(wanted.after, core.cache.tail(backend.id) - 1))
    cached = core.cache.contents(backend.id)
    results = [result for result in cached if after < result.position <= upto]
    size_bytes = 0
    for place in reversed(range(len(results))):
        size_bytes += results[place].size_bytes
        if size_bytes > most_bytes:
            after, results = results[place].position, results[place + 1 :]
            break
    rows = tuple((result.position, result.created_at, Raw(result.payload)) for result in results)
    return ResultsFound(wanted.question, after, upto, rows)


def most_of(fetch: Fetch, epoch: str, answers: Iterable[ResultsFound]) -> NeighbourResults | None:
    """The answer with the most results; None if nobody has any."""
    most = max(answers, key=lambda answer: len(answer.results), default=None)
    if most is None or not most.results:
        return None
    results = [
        Result(fetch.backend, position, created_at, bytes(payload))
        for position, created_at, payload in most.results
    ]
    return NeighbourResults(epoch, most.after, most.upto, results)


class NeighbourCounts(Struct):
    """What neighbours' result caches gave, and what this broker's gave to them."""

    asked: int = 0
    results: int = msgspec.field(default=0, name="near")
    results_bytes: int = msgspec.field(default=0, name="near_bytes")
    served: int = 0
    served_bytes: int = 0


class _Question:
    def __init__(self, fetch: Fetch, epoch: str, neighbours: int, until: float) -> None:
        self.fetch = fetch
        self.epoch = epoch
        self.waiting = neighbours
        self.until = until
        self.answers: list[ResultsFound] = []


class Decided(Struct, frozen=True):
    """What neighbours have of a fetch; None: nothing."""

    fetch: Fetch
    results: NeighbourResults | None

    def rest(self) -> Fetch | None:
        """What is left to the store; None: nothing."""
        if self.results is None:
            return self.fetch
        after = self.results.after
        return replace(self.fetch, upto=after) if after > self.fetch.after else None


class Neighbours:
    """Questions to neighbours about results, and theirs."""

    def __init__(self, core: BrokerCore, router: Router, counts: NeighbourCounts) -> None:
        self.counts = counts
        self._core = core
        self._router = router
        self._last = 0
        self._questions: dict[int, _Question] = {}
        self._joined: dict[int, NeighbourResults] = {}  # by fetch, while the store is asked

    def ask(self, fetch: Fetch, now: float) -> list[RoutingEffect]:
        """Nothing if nobody can be asked: then the store has to."""
        backend = self._core.table.backends.get(fetch.backend)
        neighbours = self._router.neighbours
        if fetch.ahead or backend is None or not neighbours:
            return []
        self._last += 1
        self.counts.asked += 1
        question = _Question(fetch, backend.epoch, len(neighbours), now + ANSWER_S)
        self._questions[self._last] = question
        wanted = ResultsWanted(self._last, fetch.backend, backend.epoch, fetch.after, fetch.upto)
        effects: list[RoutingEffect] = []
        for neighbour in neighbours:
            effects += self._router.ask(neighbour, wanted)
        return effects

    def heard(self, asked: Asked) -> list[RoutingEffect] | Decided | None:
        """A neighbour asks: what it is answered. It answers: what is decided now, if anything."""
        question = asked.question
        if isinstance(question, ResultsWanted):
            part = cached_part(self._core, question)
            self.counts.served += len(part.results)
            self.counts.served_bytes += sum(len(bytes(value)) for _, _, value in part.results)
            return self._router.ask(asked.neighbour, part)
        waiting = self._questions.get(question.question)
        if waiting is None:
            return None
        waiting.answers.append(question)
        all_answered = len(waiting.answers) >= waiting.waiting
        return self._decide(question.question) if all_answered else None

    def tick(self, now: float) -> list[Decided]:
        over = [number for number, question in self._questions.items() if question.until <= now]
        return [self._decide(number) for number in over]

    def _decide(self, number: int) -> Decided:
        question = self._questions.pop(number)
        results = most_of(question.fetch, question.epoch, question.answers)
        if results is not None:
            self.counts.results += len(results.results)
            self.counts.results_bytes += sum(result.size_bytes for result in results.results)
            self._joined[question.fetch.fetch] = results
        return Decided(question.fetch, results)

    def join(self, fetch: Fetch, stored: RangeAnswer | None) -> RangeAnswer | None:
        """What neighbours and the store have; None: the store failed where it was needed."""
        results = self._joined.pop(fetch.fetch, None)
        return stored if results is None else results.behind(stored)

    def forget(self, fetch: Fetch) -> None:
        """The store failed."""
        self._joined.pop(fetch.fetch, None)
