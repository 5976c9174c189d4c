"""The demo's bookkeeping: watches the promises while the demo runs, and gives the final account.

The driver tells it what happened; at the end it compares what the cluster stored with what each
subscriber displayed. It trusts nobody's own counters for that. Pure: no clock, no I/O.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct, field


class Account(Struct, frozen=True, kw_only=True):
    """Of one broker, or of all together. Everything counts results at subscribers."""

    delivered: int  # displayed, each counted once per subscription
    lost: int  # stored for a subscription and never displayed
    doubled: int  # displayed again
    out_of_order: int  # displayed after one with a higher position
    unknown: int  # displayed, but the cluster never stored it
    reported_missing: int  # not displayed, but the subscriber was told of the gap (retention)
    latency_ms: dict[str, float | None]  # p50, p99 from publish to display, while online
    hits: int
    misses: int
    fetched_bytes: int
    page_hits: int
    page_misses: int
    page_saved_bytes: int  # given to subscribers, less fetched from the cluster

    @property
    def page_hit_ratio(self) -> float | None:
        """Of the pictures that were opened, those that the broker had."""
        requests = self.page_hits + self.page_misses
        return self.page_hits / requests if requests else None

    @property
    def hit_ratio(self) -> float | None:
        """Results served from the cache out of all that were asked for; None when none were."""
        requests = self.hits + self.misses
        return self.hits / requests if requests else None

    @property
    def promises_held(self) -> bool:
        return not (self.lost or self.doubled or self.out_of_order or self.unknown)


class Outcome(Struct, frozen=True, kw_only=True):
    """What the demo shows at its end."""

    published: int
    results: int
    total: Account
    brokers: dict[str, Account]
    broken: tuple[str, ...]  # each broken promise in one line, the first ones only

    @property
    def promises_held(self) -> bool:
        return self.total.promises_held and not self.broken


class _Reader(Struct):
    """One frontend subscription as its subscriber sees it."""

    subscriber: str
    backend: int
    epoch: str
    after: int  # results after this position are owed
    broker: str
    until: int | None = None  # given up: nothing after this is owed
    highest: int = 0
    seen: set[int] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)  # positions whose absence was told


class _Tally(Struct):
    counts: Counter[str] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)


BROKEN_SHOWN = 20


class Ledger:
    def __init__(self) -> None:
        self._published: Counter[str] = Counter()
        self._readers: dict[int, _Reader] = {}
        self._closed: list[tuple[int, _Reader]] = []
        self._stored: dict[int, tuple[str, int]] = {}
        self._tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._broken: list[str] = []

    def published(self, dataset: str, count: int = 1) -> None:
        """So many records were acknowledged to their publisher."""
        self._published[dataset] += count

    def subscribed(
        self, subscription: int, subscriber: str, broker: str, backend: int, epoch: str, after: int
    ) -> None:
        """A frontend subscription was made: results after the position `after` are owed to it.

        Telling it again (a resumed session) changes its broker only.
        """
        known = self._readers.get(subscription)
        if known is not None and known.until is not None:
            self._closed.append((subscription, known))  # its id was given to a new one
            known = None
        if known is None:
            self._readers[subscription] = _Reader(
                subscriber, backend, epoch, after, broker, highest=after
            )
        else:
            known.broker = broker
            if known.epoch != epoch:
                self._break(f"subscription {subscription} changed its epoch: {known.epoch} {epoch}")

    def unsubscribed(self, subscription: int) -> None:
        """Nothing more is owed, but what was displayed until now must be without holes."""
        reader = self._readers[subscription]
        reader.until = reader.highest

    def displayed(
        self, subscription: int, position: int, *, broker: str, latency_ms: float | None = None
    ) -> None:
        """A subscriber saw a result. Without latency: it was away when the result was made."""
        reader = self._readers.get(subscription)
        tally = self._tallies[broker]
        if reader is None:
            tally.counts["unknown"] += 1
            self._break(f"subscription {subscription} is nobody's, but displayed {position}")
            return
        reader.broker = broker
        if position in reader.seen:
            tally.counts["doubled"] += 1
            self._break(f"{self._name(subscription)} displayed {position} again")
            return
        if position < reader.highest:
            tally.counts["out_of_order"] += 1
            self._break(f"{self._name(subscription)} displayed {position} after {reader.highest}")
        reader.seen.add(position)
        reader.highest = max(reader.highest, position)
        tally.counts["delivered"] += 1
        if latency_ms is not None:
            tally.latencies_ms.append(latency_ms)

    def gap(self, subscription: int, first: int, last: int) -> None:
        """A subscriber was told that first…last are no longer kept."""
        self._readers[subscription].missing.update(range(first, last + 1))

    def stored(self, backend: int, epoch: str, head: int) -> None:
        """At the end: the cluster's store gave out the positions 1…head of this backend
        subscription. One that is not mentioned has no results."""
        self._stored[backend] = (epoch, head)

    def cache(self, broker: str, **counts: int) -> None:
        """At the end: what a broker's caches counted (fields of `Account`). Added up if a broker
        was started again."""
        self._tallies[broker].counts.update(counts)

    def backends(self) -> set[int]:
        """Every backend subscription that somebody has or had a subscription to."""
        return {reader.backend for _, reader in self._all()}

    def interrupted(self) -> None:
        """The demo was stopped early: nothing is owed beyond what each subscriber saw last.
        Holes before that, repeats and disorder still count."""
        for reader in self._readers.values():
            if reader.until is None:
                reader.until = reader.highest

    def outstanding(self) -> int:
        """How many stored results are still owed; the driver waits for 0 before it asks for the
        outcome, so that "lost" means lost and not late. Needs `stored` to have been told."""
        return sum(len(self._owed(reader) - reader.missing) for _, reader in self._all())

    def outcome(self) -> Outcome:
        tallies = {name: Counter(tally.counts) for name, tally in self._tallies.items()}
        broken = list(self._broken)
        for subscription, reader in self._all():
            counts = tallies.setdefault(reader.broker, Counter())
            owed = self._owed(reader)
            lost = owed - reader.missing
            counts["reported_missing"] += len(owed) - len(lost)
            counts["lost"] += len(lost)
            if lost:
                broken.append(f"{self._name(subscription)} never displayed {_ranges(lost)}")
            unknown = self._unknown(reader)
            counts["unknown"] += len(unknown)
            if unknown:
                broken.append(
                    f"{self._name(subscription)} displayed {_ranges(unknown)}, never stored for it"
                )
        latencies = {name: tally.latencies_ms for name, tally in self._tallies.items()}
        return Outcome(
            published=self._published.total(),
            results=sum(head for _, head in self._stored.values()),
            total=_account(
                _sum(tallies.values()),
                [latency for group in latencies.values() for latency in group],
            ),
            brokers={
                name: _account(tallies[name], latencies.get(name, [])) for name in sorted(tallies)
            },
            broken=tuple(broken[:BROKEN_SHOWN]),
        )

    def _all(self) -> list[tuple[int, _Reader]]:
        return [*self._closed, *self._readers.items()]

    def _head(self, reader: _Reader) -> int:
        epoch, head = self._stored.get(reader.backend, (reader.epoch, 0))
        return head if epoch == reader.epoch else 0

    def _owed(self, reader: _Reader) -> set[int]:
        until = self._head(reader) if reader.until is None else reader.until
        return set(range(reader.after + 1, until + 1)) - reader.seen

    def _unknown(self, reader: _Reader) -> set[int]:
        epoch, _ = self._stored.get(reader.backend, ("", 0))
        if reader.until is not None and epoch != reader.epoch:
            return set()  # the last subscriber left: the store forgot the backend subscription
        return {seen for seen in reader.seen if not reader.after < seen <= self._head(reader)}

    def _name(self, subscription: int) -> str:
        return f"{self._readers[subscription].subscriber} (subscription {subscription})"

    def _break(self, promise: str) -> None:
        if len(self._broken) < BROKEN_SHOWN:
            self._broken.append(promise)


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least `share` of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def _sum(tallies: Iterable[Counter[str]]) -> Counter[str]:
    """Bytes may have been lost rather than saved, and Counter's own sum drops what is negative."""
    total: Counter[str] = Counter()
    for counts in tallies:
        total.update(counts)
    return total


def _account(counts: Counter[str], latencies_ms: list[float]) -> Account:
    return Account(
        delivered=counts["delivered"],
        lost=counts["lost"],
        doubled=counts["doubled"],
        out_of_order=counts["out_of_order"],
        unknown=counts["unknown"],
        reported_missing=counts["reported_missing"],
        latency_ms={
            "p50": percentile(latencies_ms, 0.50),
            "p99": percentile(latencies_ms, 0.99),
        },
        hits=counts["hits"],
        misses=counts["misses"],
        fetched_bytes=counts["fetched_bytes"],
        page_hits=counts["page_hits"],
        page_misses=counts["page_misses"],
        page_saved_bytes=counts["page_saved_bytes"],
    )


def _ranges(positions: set[int]) -> str:
    """4, 5, 6, 9 as "4-6, 9"; long lists are cut."""
    ranges: list[str] = []
    first = last = min(positions)
    for position in [*sorted(positions)[1:], None]:
        if position == last + 1:
            last = position
            continue
        ranges.append(str(first) if first == last else f"{first}-{last}")
        if position is not None:
            first = last = position
    return ", ".join(ranges[:5]) + (", …" if len(ranges) > 5 else "")
