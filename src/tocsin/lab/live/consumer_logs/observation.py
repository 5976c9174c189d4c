"""What the consumers of a live run saw: checked, and measured as the simulator measures.

Knows no Kafka and no clock. What was admitted is not computed here: it is what consumers found in
their logs at once; the rest was filled in from the database.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.lab.simulators.consumer_logs import Measures
from tocsin.lab.spec.study import BrokenPromise
from tocsin.lab.workloads.offers import Offers

Flags = NDArray[np.bool_]
Times = NDArray[np.float64]


class Seen(Struct):
    """Of one consumer, result by result as they were handed on. Times are of one clock."""

    records: list[int] = []  # counting from 0 as they were published
    filled: list[bool] = []
    made_at: list[float] = []
    logged_at: list[float] = []
    arrived_at: list[float] = []
    handed_on_at: list[float] = []
    lost: int = 0
    read_bytes: int = 0


class Timings(Struct, frozen=True, kw_only=True):
    """What the simulator's costs are found from, turn by turn: what was committed together."""

    turn_s: list[float]
    turn_records: list[int]
    turn_copies: list[int]
    turn_misses: list[int]
    turn_logged_s: list[float]  # from a result's making to its arrival: mean of those admitted …
    turn_filled_s: list[float]  # … and of those filled in; 0 if there are none
    turn_read_s: list[float]  # of these, from the log on


def wanted(offers: Offers) -> Flags:
    """Whether a consumer (row) waits for a content (column)."""
    wants = np.zeros((offers.consumers, len(offers.first) - 1), np.bool_)
    of_content = np.repeat(np.arange(wants.shape[1]), np.diff(offers.first))
    wants[offers.consumer, of_content] = True
    return wants


def awaited(offers: Offers) -> list[NDArray[np.int64]]:
    """For each consumer the records that it must get, in their order."""
    return [np.flatnonzero(row[offers.content]) for row in wanted(offers)]


def check(offers: Offers, seen: Sequence[Seen]) -> None:
    """Everything came to everybody, in order and once."""
    for number, (consumer, expected) in enumerate(zip(seen, awaited(offers), strict=True), start=1):
        if consumer.lost:
            raise BrokenPromise(f"consumer {number} was told that {consumer.lost} records are lost")
        if consumer.records == expected.tolist():
            continue
        same = [a == b for a, b in zip(consumer.records, expected.tolist(), strict=False)]
        right = same.index(False) if False in same else len(same)
        raise BrokenPromise(
            f"consumer {number} got {len(consumer.records)} records instead of {len(expected)}: "
            f"the first {right} are right"
        )


class Observed:
    """The deliveries of one point, consumer by consumer, in arrays."""

    def __init__(self, offers: Offers, began_at: float, seen: Sequence[Seen]) -> None:
        check(offers, seen)
        self._offers = offers
        self._seen = seen
        self._record: NDArray[np.int64] = _joined(seen, "records", np.int64)
        self._filled: Flags = _joined(seen, "filled", np.bool_)
        self._created, self._logged, self._arrived, self._handed_on = (
            _joined(seen, name, np.float64) - began_at
            for name in ("made_at", "logged_at", "arrived_at", "handed_on_at")
        )
        refused = np.zeros(len(offers), np.bool_)
        refused[self._record[self._filled]] = True
        torn = self._record[refused[self._record] != self._filled]
        if len(torn):
            raise BrokenPromise(f"record {torn[0] + 1} was admitted for some of its consumers only")
        self._admitted = ~refused & (offers.waiting > 0)

    def measures(self, seconds: float) -> Measures:
        """Bytes are those of values; what is written, stored and read is counted as it is in Kafka,
        with what stands around a value. How often the database was asked is not seen from here."""
        ended_at = float(self._arrived.max(initial=0.0))
        duration_s = max(0.0, ended_at - float(self._offers.at[0]))
        return Measures(
            **self._counts(),
            **self._bytes(ended_at, duration_s),
            **self._times(),
            duration_s=duration_s,
            seconds=seconds,
        )

    def _counts(self) -> dict[str, Any]:
        admitted, waiting = self._admitted, self._offers.waiting
        copies, deliveries = int(waiting[admitted].sum()), len(self._record)
        in_turn = admitted[waiting > 0]
        return dict(
            records=int((waiting > 0).sum()),
            unmatched=int((waiting == 0).sum()),
            admitted=int(admitted.sum()),
            deliveries=deliveries,
            hits=copies,
            misses=deliveries - copies,
            copies=copies,
            shared_records=int((waiting > 1).sum()),
            shared_admitted=int((admitted & (waiting > 1)).sum()),
            longest_admitted=_longest(in_turn),
            longest_refused=_longest(~in_turn),
            database_fetches=math.nan,
        )

    def _bytes(self, ended_at: float, duration_s: float) -> dict[str, Any]:
        admitted, waiting = self._admitted, self._offers.waiting
        size_bytes = self._offers.size_bytes
        read_bytes = sum(consumer.read_bytes for consumer in self._seen)
        there_s = float((ended_at - self._arrived).mean()) if len(self._arrived) else 0.0
        return dict(
            admitted_bytes=int((size_bytes * waiting)[admitted].sum()),
            duplicated_bytes=int((size_bytes * (waiting - 1))[admitted].sum()),
            written_bytes=read_bytes,
            expired_bytes=0,
            stored_bytes=read_bytes,
            stored_mean_bytes=read_bytes * there_s / duration_s if duration_s else 0.0,
            stored_max_bytes=read_bytes,
            read_bytes=read_bytes,
            database_written_bytes=self._stored_bytes(),
            database_read_bytes=int(size_bytes[self._record[self._filled]].sum()),
        )

    def _times(self) -> dict[str, Any]:
        published_at = self._offers.at[self._record]
        latencies, ordered = self._arrived - published_at, self._handed_on - published_at
        deliveries = len(latencies)
        p50, p90, p99 = np.percentile(latencies, [50, 90, 99]) if deliveries else (0.0,) * 3
        return dict(
            latency_mean_s=float(latencies.mean()) if deliveries else 0.0,
            latency_p50_s=float(p50),
            latency_p90_s=float(p90),
            latency_p99_s=float(p99),
            ordered_mean_s=float(ordered.mean()) if deliveries else 0.0,
            response_mean_s=math.nan,
        )

    def _stored_bytes(self) -> int:
        """The store holds every result, once for all consumers who asked the same."""
        offers = self._offers
        wishes, same = np.unique(offers.subscribed[:, 1:], axis=0, return_inverse=True)
        backends = np.zeros((len(wishes), len(offers.first) - 1), np.bool_)
        np.logical_or.at(backends, same.reshape(-1), wanted(offers)[offers.subscribed[:, 0]])
        return int((backends.sum(axis=0)[offers.content] * offers.size_bytes).sum())

    def timings(self) -> Timings:
        made_at, turn = np.unique(self._created, return_inverse=True)
        published_at = np.full(len(made_at), np.inf)
        np.minimum.at(published_at, turn, self._offers.at[self._record])
        free_at = np.concatenate([[0.0], made_at[:-1]])
        records = np.unique(np.stack([turn, self._record]), axis=1)[0]

        def counts(which: Flags) -> NDArray[np.int64]:
            return np.bincount(turn[which], minlength=len(made_at))

        def means(which: Flags, since: Times) -> list[float]:
            late = (self._arrived - since)[which]
            sums = np.bincount(turn[which], late, minlength=len(made_at))
            late_s: list[float] = (sums / np.maximum(counts(which), 1)).tolist()
            return late_s

        admitted, filled = ~self._filled, self._filled
        return Timings(
            turn_s=(made_at - np.maximum(free_at, published_at)).tolist(),
            turn_records=np.bincount(records, minlength=len(made_at)).tolist(),
            turn_copies=counts(admitted).tolist(),
            turn_misses=counts(filled).tolist(),
            turn_logged_s=means(admitted, self._created),
            turn_filled_s=means(filled, self._created),
            turn_read_s=means(filled, self._logged),
        )


def _joined(seen: Sequence[Seen], name: str, kind: type) -> Any:
    return np.concatenate([np.array(getattr(consumer, name), kind) for consumer in seen])


def _longest(flags: Flags) -> int:
    """The longest run of what is true."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], flags.view(np.int8), [0]])))
    return int((ends[1::2] - ends[::2]).max(initial=0))
