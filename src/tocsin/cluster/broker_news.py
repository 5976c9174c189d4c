"""What a broker was notified of last, and what it must hear next. Knows no clock or socket.

Results travel forward: what a commit added goes with its head to the brokers that serve the backend
subscription and keep results. What does not fit is told by its head, and fetched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Raw, Struct

from tocsin.model import Departure, Head, Result
from tocsin.storage.store.news import News
from tocsin.storage.store.runs import Committed

NOTICE_BYTES_AT_MOST = 512 * 1024  # of one notice
WAITING_BYTES_AT_MOST = 8 * 1024 * 1024  # for one broker, while it takes the notice before
HEADS_AT_MOST = 5000  # of one notice, and departures
AROUND_BYTES = 80  # what a notice says beside a result's payload
ELSEWHERE_AT_MOST = 100_000


class Growth(Struct):
    """What a commit added to a backend subscription: the results up to its new head; none: they are
    to be fetched. `pushed`: they go to brokers that say nothing of what they keep, too."""

    head: Head
    results: list[Result] = []
    size_bytes: int = 0
    pushed: bool = False
    encoded: Raw | None = None  # as notices tell it: the same for every broker

    @property
    def by_head(self) -> Growth:
        return Growth(self.head) if self.results else self


def growths(committed: Committed, *, pushed: bool = False) -> list[Growth]:
    """One for each head."""
    by_backend: dict[int, list[Result]] = {head.backend: [] for head in committed.heads}
    for result in committed.results:
        by_backend[result.backend].append(result)
    return [
        Growth(head, results, sum(AROUND_BYTES + len(result.payload) for result in results), pushed)
        for head, results in zip(committed.heads, by_backend.values(), strict=True)
    ]


class Waiting:
    """What waits to be told, by backend subscription: results that follow each other, and in the
    end perhaps a head behind them."""

    def __init__(self, most_bytes: int) -> None:
        self.of: dict[int, list[Growth]] = {}
        self._left_bytes = most_bytes

    def __bool__(self) -> bool:
        return bool(self.of)

    def add(self, growth: Growth, *, carried: bool) -> None:
        known = self.of.get(growth.head.backend)
        behind_a_hole = known is not None and not known[-1].results
        if not carried or behind_a_hole or not self._fits(growth):
            growth = growth.by_head
            if known is not None and behind_a_hole:
                known[-1] = growth
                return
        self._left_bytes -= growth.size_bytes
        if known is None:
            self.of[growth.head.backend] = [growth]
        else:
            known.append(growth)

    def _fits(self, growth: Growth) -> bool:
        return growth.size_bytes <= min(self._left_bytes, NOTICE_BYTES_AT_MOST)

    def take(self, other: Waiting, backends: Iterable[int]) -> None:
        """From the other one, of these backend subscriptions: it is later than all here."""
        for backend in list(backends):
            for growth in other.of.pop(backend, ()):
                other._left_bytes += growth.size_bytes
                self.add(growth, carried=True)


class Telling(Struct):
    """What a notice will be made of. `doubtful`: the store knows of more. `strangers`: of backend
    subscriptions of which only the store knows whether the broker serves them."""

    fresh: Waiting
    doubtful: bool
    strangers: Waiting


@dataclass
class BrokerNews:
    """`since` is the last sequence that the broker has surely heard of."""

    name: str
    since: int
    keeps: bool | None = None  # whether results may travel; None: it has not said so
    heard: dict[int, Head] = field(default_factory=dict)  # of backend subscriptions that it has
    most_bytes: int = WAITING_BYTES_AT_MOST
    number: int = 0  # of the last notice: by it the broker knows that it heard all before
    fresh: Waiting = field(init=False)  # newer ones of these
    strangers: Waiting = field(init=False)  # of those that it may have
    elsewhere: set[int] = field(default_factory=set)  # those that it has not, as far as is known
    doubtful: bool = False  # subscriptions may have changed: the store knows
    looking: bool = False  # for strangers

    def __post_init__(self) -> None:
        self.fresh, self.strangers = Waiting(self.most_bytes), Waiting(self.most_bytes)

    def committed(self, grown: Iterable[Growth]) -> None:
        """A run was stored."""
        heard, elsewhere, keeps = self.heard, self.elsewhere, self.keeps
        for growth in grown:
            carried = growth.pushed if keeps is None else keeps
            if growth.head.backend in heard:
                self.fresh.add(growth, carried=carried)
            elif growth.head.backend not in elsewhere:
                self.strangers.add(growth, carried=carried)

    def ask(self) -> None:
        """Something changed that the broker may have to hear of."""
        self.doubtful = True

    def look(self) -> None:
        """Strangers have waited for long enough."""
        self.looking = True

    def answered(self, keeps: bool | None, unknown: Collection[int]) -> None:
        """The broker took a notice. It does not serve the `unknown` (yet, or any longer): before
        more is told of them, the store is asked."""
        self.keeps = keeps
        for backend in unknown:
            self.heard.pop(backend, None)

    def begin_anew(self) -> None:
        """The broker has registered: nobody knows what it has, and what it keeps."""
        self.heard.clear()
        self.elsewhere.clear()
        self.keeps = None

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def begin(self) -> Telling:
        """For the next notice."""
        most = self.most_bytes
        telling = Telling(self.fresh, self.doubtful, Waiting(most))
        self.fresh, self.doubtful = Waiting(most), False
        if self.looking:
            telling.strangers, self.strangers = self.strangers, telling.strangers
            self.looking = False
        return telling

    def put_back(self, telling: Telling) -> None:
        """The store did not answer: all of it is for a later notice."""
        telling.fresh.take(self.fresh, self.fresh.of)
        telling.strangers.take(self.strangers, self.strangers.of)
        self.fresh, self.strangers = telling.fresh, telling.strangers
        self.looking = self.looking or bool(telling.strangers)
        self.doubtful = self.doubtful or telling.doubtful

    def finish(
        self, telling: Telling, answer: News | None, served: Collection[int]
    ) -> tuple[list[Growth], list[Departure]]:
        """What is to be told: growths in order, departures. It counts as heard: a notice that is
        lost is made up by the broker's own question. `answer`: what the store says is new, if it
        was asked; `served`: which of the strangers the broker serves."""
        arrived: dict[int, Head] = {}
        detached: list[Departure] = []
        if answer is not None:
            self.since, heads, detached = answer
            arrived = {head.backend: head for head in heads if self._is_new_here(head)}
            self.elsewhere.difference_update(arrived)
        fresh, strangers = telling.fresh, telling.strangers
        fresh.take(strangers, [b for b in strangers.of if b in served or b in arrived])
        self._miss(strangers.of.keys())
        for head in arrived.values():
            known = fresh.of.get(head.backend)
            if known is None or known[-1].head.head < head.head:
                fresh.add(Growth(head), carried=False)
        news = list(self._news_of(fresh))
        self.heard.update((growth.head.backend, growth.head) for growth in news)
        self.fresh.take(self.strangers, [b for b in self.strangers.of if b in self.heard])
        return news, detached

    def _is_new_here(self, head: Head) -> bool:
        """Of what the broker has already, it hears by what is committed."""
        last = self.heard.get(head.backend)
        return last is None or last.epoch != head.epoch

    def _news_of(self, fresh: Waiting) -> Iterator[Growth]:
        for backend, grown in fresh.of.items():
            last = self.heard.get(backend)
            for growth in grown:
                if last is None or last.epoch != growth.head.epoch or last.head < growth.head.head:
                    yield growth

    def _miss(self, strangers: Collection[int]) -> None:
        if len(self.elsewhere) + len(strangers) > ELSEWHERE_AT_MOST:
            self.elsewhere.clear()
        self.elsewhere.update(strangers)


def parts(
    news: Sequence[Growth], detached: Sequence[Departure]
) -> Iterator[tuple[list[Growth], list[Departure]]]:
    """Notices of a size that brokers take from somebody whom they do not know yet."""
    rest = list(detached)
    part: list[Growth] = []
    size_bytes = 0
    for growth in news:
        full = size_bytes + growth.size_bytes > NOTICE_BYTES_AT_MOST
        if part and (full or len(part) >= HEADS_AT_MOST):
            yield part, rest[:HEADS_AT_MOST]
            part, size_bytes, rest = [], 0, rest[HEADS_AT_MOST:]
        part.append(growth)
        size_bytes += growth.size_bytes
    while part or rest:
        yield part, rest[:HEADS_AT_MOST]
        part, rest = [], rest[HEADS_AT_MOST:]
