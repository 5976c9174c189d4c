"""Subscriptions to the records of routed datasets: by filters that brokers match.

The cluster binds their texts, tells brokers where they stand, and answers for the past: what a
broker lacks is read from the log, and filtered here. `routed_stream` tells what comes live.
All of it may wait for disks and for the store, and is called on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from tocsin.cluster.log_records import PIECE_BYTES, LogRecords, Placed, Read
from tocsin.cluster.records import log_record, routed_result
from tocsin.errors import Forbidden, InvalidInput
from tocsin.model import (
    FILTERED,
    Arguments,
    Beginning,
    Channel,
    Dataset,
    Subscription,
    filtered_dataset,
)
from tocsin.overlay.filters import Filter, as_text
from tocsin.overlay.filters.filter import matcher
from tocsin.protocol.cluster import BoundFilter, LogRange, ResultRange
from tocsin.sql import Claims, bind_arguments, bind_claims, parse_filter
from tocsin.storage.log import PublicationLog, open_reader
from tocsin.storage.store.results import Range
from tocsin.storage.store.results import ResultRange as StoredRange
from tocsin.storage.store.store import Store
from tocsin.storage.tables import TableFiles

CALL_BYTES = 16 * 1024 * 1024  # about what one call for ranges reads; a piece for each at least
LOG_CALL_BYTES = 4 * 1024 * 1024

Matcher = Callable[[dict[str, Any]], bool]


class Routing:
    def __init__(self, store: Store, publication_log: PublicationLog, tables: TableFiles) -> None:
        self._store = store
        self._log = publication_log
        self._reader = open_reader(publication_log.address)
        self.records = LogRecords(self._reader, tables)

    def close(self) -> None:
        self._reader.close()

    def dataset(self, channel: str) -> Dataset | None:
        """The dataset whose records a channel's subscriptions filter; None: another channel."""
        name = filtered_dataset(channel)
        if name is None:
            return None
        dataset = self._store.catalog.dataset(name)
        if not dataset.routed:
            raise InvalidInput(
                f"dataset {name} is not routed",
                field="dataset",
                hint="CREATE DATASET … ROUTED makes one that is; or create a channel",
            )
        return dataset

    def bind(
        self,
        channel: Channel,
        dataset: Dataset,
        given: dict[str, Any] | list[Any],
        claims: Claims | None,
    ) -> Arguments:
        """Equal filters have equal arguments, however they were written. `claims`: what the
        subscriber's token says, if it was shown."""
        where = bind_arguments(channel, given or {"where": ""})["where"]
        if not isinstance(where, str):
            raise InvalidInput(
                "a filter cannot be left open", field="where", hint="an empty one takes all records"
            )
        return {"where": as_text(bound_filter(dataset, where, claims))}

    def fits(self, dataset: Dataset, where: str, claims: Claims) -> bool:
        """Whether a filter asks for no other records than the claims allow."""
        try:
            return as_text(bound_filter(dataset, where, claims)) == where
        except InvalidInput:
            return False

    def marker(self, dataset: Dataset, where: str, beginning: Beginning | None, now: float) -> int:
        """Where a new subscription begins."""
        end = self._log.ends().get(dataset.name, 0)
        if beginning is None:
            return end
        if beginning.last is not None:
            matches = matcher_of(dataset, where)
            return min(end, self.records.last(dataset, matches, beginning.last, end))
        at_us = round((now - (beginning.seconds or 0.0)) * 1e6)
        return min(end, self.records.since(dataset, at_us, end))

    def present(self, subscriptions: Sequence[Subscription]) -> list[Subscription]:
        """The same, with what only the log knows of filters."""
        ends = self._log.ends()
        floors: dict[str, int] = {}
        return [self._present(subscription, ends, floors) for subscription in subscriptions]

    def _present(
        self, subscription: Subscription, ends: dict[str, int], floors: dict[str, int]
    ) -> Subscription:
        dataset = self.dataset(subscription.backend.channel)
        if dataset is None:
            return subscription
        if dataset.name not in floors:
            floors[dataset.name] = self.records.floor(dataset)
        backend = msgspec.structs.replace(
            subscription.backend,
            head=ends.get(dataset.name, 0),
            floor=floors[dataset.name],
            filter=filter_json(dataset, subscription.backend.arguments["where"]),
        )
        return msgspec.structs.replace(subscription, backend=backend)

    def answers(
        self, ranges: Sequence[Range], stored: Sequence[StoredRange | None]
    ) -> list[ResultRange | None]:
        """The answers to those ranges that are filters'; None for the others."""
        pieces = _Pieces(self.records)
        ends, datasets = self._log.ends(), {}
        matching: list[tuple[list[Placed], int]] = []
        for range_, state in zip(ranges, stored, strict=True):
            if state is None or state.dataset is None:
                matching.append(([], 0))
                continue
            name = state.dataset
            dataset = datasets[name] = self._store.catalog.dataset(name)
            matches = matcher_of(dataset, state.arguments["where"])
            upto = min(range_.upto, ends.get(name, 0))
            matching.append(pieces.matching(dataset, matches, range_.after, upto, range_.limit))
        # Afterwards: what has gone while we read is told.
        floors = {name: self.records.floor(dataset) for name, dataset in datasets.items()}
        return [
            None
            if state is None or state.dataset is None
            else ResultRange(
                backend=state.backend,
                epoch=state.epoch,
                floor=floors[state.dataset],
                head=ends.get(state.dataset, 0),
                results=[routed_result(placed) for placed in records],
                upto=reached,
            )
            for state, (records, reached) in zip(stored, matching, strict=True)
        ]

    def filter(self, name: str, where: str, claims: Claims | None = None) -> BoundFilter:
        """A filter by its text: its canonical form, and what brokers match for who asks."""
        dataset = self.dataset(FILTERED + name)
        assert dataset is not None
        bound = bound_filter(dataset, where, claims)
        return BoundFilter(as_text(bound), bound)

    def log_range(self, name: str, after: int, upto: int | None, limit: int) -> LogRange[Raw]:
        """All records of a dataset in a range."""
        dataset = self._store.catalog.dataset(name)
        end = self._log.ends().get(name, 0)
        upto = end if upto is None else min(upto, end)
        records: list[Placed] = []
        reached, size_bytes = after, 0
        while reached < upto and size_bytes < LOG_CALL_BYTES and len(records) < limit:
            piece = self.records.read(dataset, reached, upto, PIECE_BYTES)
            records += piece.records
            size_bytes += sum(len(placed.record) for placed in piece.records)
            reached = piece.upto
        if len(records) > limit:
            del records[limit:]
            reached = records[-1].position
        floor = self.records.floor(dataset)
        return LogRange(floor, reached, [log_record(placed) for placed in records])


class _Pieces:
    """What is read and parsed for one call, once: a burst moves all filters of a dataset."""

    def __init__(self, records: LogRecords) -> None:
        self._records = records
        self._known: dict[tuple[str, int, int], tuple[Read, list[dict[str, Any]]]] = {}
        self._left_bytes = CALL_BYTES

    def matching(
        self, dataset: Dataset, matches: Matcher, after: int, upto: int, limit: int
    ) -> tuple[list[Placed], int]:
        """The matching records behind `after`, and up to where these are all there are."""
        matching: list[Placed] = []
        while after < upto:
            piece, parsed = self._piece(dataset, after, upto)
            after = piece.upto
            pairs = zip(piece.records, parsed, strict=True)
            matching += [placed for placed, record in pairs if matches(record)]
            if len(matching) > limit:
                return matching[:limit], matching[limit - 1].position
            if len(matching) == limit or self._left_bytes <= 0:
                break
        return matching, after

    def _piece(self, dataset: Dataset, after: int, upto: int) -> tuple[Read, list[dict[str, Any]]]:
        key = (dataset.name, after, upto)
        if key not in self._known:
            piece = self._records.read(dataset, after, upto)
            self._left_bytes -= sum(len(placed.record) for placed in piece.records)
            self._known[key] = (
                piece,
                [msgspec.json.decode(placed.record) for placed in piece.records],
            )
        return self._known[key]


@lru_cache(65_536)
def filter_of(dataset: Dataset, where: str) -> Filter:
    return parse_filter(where, dataset)


def bound_filter(dataset: Dataset, where: str, claims: Claims | None) -> Filter:
    """The filter that a subscriber with these claims gets."""
    asked = filter_of(dataset, where)
    if not dataset.bound:
        return asked
    bound = bind_claims(asked, dataset, claims)
    # It is kept as text: whoever reads it again must read the very same.
    if filter_of(dataset, as_text(bound)) != bound:
        raise Forbidden("a claim of this token cannot be written in a filter", field="where")
    return bound


@lru_cache(65_536)
def filter_json(dataset: Dataset, where: str) -> Any:
    return msgspec.to_builtins(filter_of(dataset, where))


@lru_cache(4096)
def matcher_of(dataset: Dataset, where: str) -> Matcher:
    return matcher(filter_of(dataset, where))
