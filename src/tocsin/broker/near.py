"""Results from neighbours' result caches: what one has of what is missed here, and how that joins
what the store adds. Sans-I/O, and about one question at a time; who asks whom is the driver's
business.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw, Struct

from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import Fetch
from tocsin.broker.events import RangeAnswer
from tocsin.model import Result
from tocsin.overlay.routing import ResultsFound, ResultsWanted

MOST_BYTES = 256 * 1024
"""In one answer: results must not hold up what is routed over the same link."""


class Near(Struct, frozen=True):
    """All results in (after, upto], from a neighbour."""

    epoch: str
    after: int
    upto: int
    results: list[Result]

    def behind(self, stored: RangeAnswer | None) -> RangeAnswer:
        """One answer with what the store has of what is before; as much as has no hole."""
        if stored is None:
            return RangeAnswer(self.epoch, 0, self.upto, self.results, self.upto, len(self.results))
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
            len(self.results),
        )


def found(core: BrokerCore, wanted: ResultsWanted, most_bytes: int = MOST_BYTES) -> ResultsFound:
    """What the cache here has of what a neighbour wants: the newest part of it, whole."""
    backend = core.attachments.backends.get(wanted.backend)
    if backend is None or backend.epoch != wanted.epoch:
        return ResultsFound(wanted.question, wanted.upto, wanted.upto)
    upto = min(
        wanted.upto, backend.fetched
    )  # of a filter: its last match, though more was looked at
    after = min(upto, max(wanted.after, core.cache.tail(backend.id) - 1))
    results = [one for one in core.cache.contents(backend.id) if after < one.position <= upto]
    size_bytes = 0
    for at in reversed(range(len(results))):
        size_bytes += results[at].size_bytes
        if size_bytes > most_bytes:
            after, results = results[at].position, results[at + 1 :]
            break
    told = tuple((one.position, one.created_at, Raw(one.payload)) for one in results)
    return ResultsFound(wanted.question, after, upto, told)


def nearest(fetch: Fetch, epoch: str, answers: Iterable[ResultsFound]) -> Near | None:
    """The answer with most of it; None if nobody has any."""
    most = max(answers, key=lambda one: len(one.results), default=None)
    if most is None or not most.results:
        return None
    results = [
        Result(fetch.backend, position, at, bytes(value)) for position, at, value in most.results
    ]
    return Near(epoch, most.after, most.upto, results)
