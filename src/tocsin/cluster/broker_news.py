"""What a broker was notified of last, and what it must hear next. Knows no clock or socket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tocsin.model import Departure, Head, Result
from tocsin.storage.store.news import News

PUSHED_BYTES_AT_MOST = 512 * 1024
AROUND_BYTES = 80  # what a notice says beside a result's payload


class Pushed:
    """Results to be told with their heads: of each backend subscription the newest, without holes,
    all together no more than a notice takes. Those that do not fit are fetched."""

    def __init__(self) -> None:
        self._results: dict[int, list[Result]] = {}
        self._bytes = 0

    def add(self, result: Result) -> None:
        if result.size_bytes > PUSHED_BYTES_AT_MOST:  # and then none before it reaches its head
            self._results.pop(result.backend, None)
            return
        size_bytes = result.size_bytes + AROUND_BYTES
        if self._bytes + size_bytes > PUSHED_BYTES_AT_MOST:
            self._results, self._bytes = {}, 0
        self._bytes += size_bytes
        known = self._results.setdefault(result.backend, [])
        if known and known[-1].position + 1 != result.position:
            known.clear()
        known.append(result)

    def up_to(self, head: Head) -> list[Result]:
        """Those at or before the head; none unless they reach it."""
        known = self._results.get(head.backend, [])
        reached = head.head - known[0].position + 1 if known else 0
        return known[:reached] if 0 < reached <= len(known) else []

    def after(self, heads: Sequence[Head]) -> Pushed:
        """Those of the same backend subscriptions that are newer than the heads."""
        left = Pushed()
        for head in heads:
            for result in self._results.get(head.backend, ()):
                if result.position > head.head:
                    left.add(result)
        return left


@dataclass
class BrokerNews:
    """`since` is the last sequence that the broker has surely heard of."""

    name: str
    since: int
    heads_sent: dict[int, Head] = field(
        default_factory=dict
    )  # of backend subscriptions that it has
    fresh: dict[int, Head] = field(default_factory=dict)  # newer ones of these
    pushed: Pushed = field(default_factory=lambda: Pushed())
    doubtful: bool = False  # more may have changed: the store knows

    def committed(self, heads: Iterable[Head], results: Iterable[Result]) -> None:
        """A run was stored. `results` are those that travel with their heads."""
        self.fresh.update((head.backend, head) for head in heads if head.backend in self.heads_sent)
        for result in results:
            self.pushed.add(result)

    def ask(self) -> None:
        """Something changed that the broker may have to hear of."""
        self.doubtful = True

    def begin(self) -> tuple[dict[int, Head], bool]:
        """Heads for the next notice, and whether the store must be asked for more."""
        heads, self.fresh = self.fresh, {}
        doubtful, self.doubtful = self.doubtful, False
        return heads, doubtful

    def put_back(self, heads: dict[int, Head]) -> None:
        """The store did not answer: they are for a later notice."""
        self.fresh = {**heads, **self.fresh}

    def finish(
        self, heads: dict[int, Head], answer: News | None
    ) -> tuple[list[Head], Pushed, list[Departure]]:
        """What the notice says: new heads, results to take from for them, departures. They count as
        heard: a notice that is lost is made up by the broker's own question."""
        detached: list[Departure] = []
        if answer is not None:
            self.since, newest, detached = answer
            heads.update((head.backend, head) for head in newest)
        news = [head for head in heads.values() if self._is_news(head)]
        pushed, self.pushed = self.pushed, self.pushed.after(news)
        self.heads_sent.update((head.backend, head) for head in news)
        return news, pushed, detached

    def _is_news(self, head: Head) -> bool:
        last = self.heads_sent.get(head.backend)
        return last is None or last.epoch != head.epoch or last.head < head.head
