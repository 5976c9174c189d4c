"""Acknowledgements on their way to the cluster: gathered, conflated, stored, then confirmed.

One batch is under way at a time. One that the cluster refuses is parted until those are found that
it cannot take: whoever acknowledged these hears so, and they hold up no others. Outlives the
subscription's stay at this broker: what a client acknowledged here is stored even if the client has
moved on meanwhile.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection

from tocsin.backoff import delay_s
from tocsin.broker.machine.effects import (
    Acked,
    AckedMany,
    Asker,
    Effect,
    Fail,
    Marker,
    NotAcked,
    StoreMarkers,
)
from tocsin.broker.machine.gets import unknown_subscription
from tocsin.errors import InvalidInput, TocsinError, TooLarge

MOST_AT_ONCE = 10_000
_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 5.0


_Batch = dict[int, Marker]
"""By subscription."""


class _Waiters:
    """Who is to be told of one subscription's marker. Connections conflate, requests do not."""

    __slots__ = ("connections", "requests", "together")

    def __init__(self) -> None:
        self.connections: dict[int, Marker] = {}  # the newest that each has acknowledged
        self.together: dict[int, Marker] = {}  # the same of those that hear of many at once
        self.requests: list[tuple[Asker[Acked], Marker]] = []

    def __bool__(self) -> bool:
        return bool(self.connections or self.together or self.requests)


class Markers:
    def __init__(self, flush_s: float, now: float) -> None:
        self._gathered: _Batch = {}
        self._under_way: _Batch | None = None
        self._parts: deque[_Batch] = deque()  # of what the cluster refused, or that is too many
        self._waiters: dict[int, _Waiters] = {}
        self._flush_s = flush_s  # how long markers are gathered
        self._flush_at = now + flush_s
        self._failures = 0
        self._not_before = 0.0

    def gather(self, marker: Marker) -> None:
        known = self._gathered.get(marker.subscription)
        if known is None or known.epoch != marker.epoch or known.position < marker.position:
            self._gathered[marker.subscription] = marker

    def confirm(self, marker: Marker, connection: int | None, request: Asker[Acked] | None) -> None:
        """Tell this one when the marker is durable."""
        waiters = self._waiters.setdefault(marker.subscription, _Waiters())
        if connection is not None:
            waiters.connections[connection] = marker
        if request is not None:
            waiters.requests.append((request, marker))

    def confirm_together(self, marker: Marker, connection: int) -> None:
        """Tell this connection when the marker is durable, with the others of that moment."""
        self._waiters.setdefault(marker.subscription, _Waiters()).together[connection] = marker

    def latest(self, subscription: int, epoch: str) -> int:
        """The newest acknowledgement that the cluster may not know yet; 0 if there is none."""
        batches = (self._gathered, self._under_way or {}, *self._parts)
        markers = [batch.get(subscription) for batch in batches]
        positions = [marker.position for marker in markers if marker and marker.epoch == epoch]
        return max(positions, default=0)

    def flush(self, now: float) -> list[Effect]:
        """Store what was gathered for a while."""
        if now < self._flush_at:
            return []
        self._flush_at = now + self._flush_s
        if self._under_way is not None or now < self._not_before:
            return []
        if not self._parts:
            self._parts.extend(_in_parts(self._gathered, MOST_AT_ONCE))
            self._gathered = {}
        if not self._parts:
            return []
        self._under_way = self._parts.popleft()
        return [StoreMarkers(list(self._under_way.values()))]

    def stored(self, unknown: Collection[int]) -> tuple[list[Marker], list[Effect]]:
        """The batch is durable: which markers, and who is told."""
        batch, self._under_way, self._failures = self._under_way or {}, None, 0
        effects: list[Effect] = []
        together: dict[int, list[Marker]] = defaultdict(list)  # by connection
        gone = set(unknown)
        for subscription, marker in batch.items():
            if subscription in gone:
                self._gathered.pop(subscription, None)
                effects += self._refused(subscription, unknown_subscription(subscription))
            elif (waiters := self._waiters.pop(subscription, None)) is not None:
                for connection in waiters.together:
                    together[connection].append(marker)
                if waiters.connections or waiters.requests:
                    effects.append(self._acked(marker, waiters))
                if later := _not_reached(marker, waiters):
                    self._waiters[subscription] = later
        effects += [AckedMany(connection, markers) for connection, markers in together.items()]
        return [m for s, m in batch.items() if s not in gone], effects

    def failed(self, error: TocsinError, now: float) -> list[Effect]:
        batch, self._under_way = self._under_way or {}, None
        if not _is_refusal(error):
            self._gather_again(batch)
            self._not_before = now + delay_s(self._failures, _FIRST_RETRY_S, _LONGEST_RETRY_S)
            self._failures += 1
            return []
        if len(batch) > 1:
            self._parts.extendleft(reversed(_in_parts(batch, (len(batch) + 1) // 2)))
            return []
        effects: list[Effect] = []
        for subscription in batch:
            effects += self._refused(subscription, error)
        return effects

    def _gather_again(self, batch: _Batch) -> None:
        older = [batch, *self._parts, self._gathered]
        self._parts.clear()
        self._gathered = {}
        for part in older:
            for marker in part.values():
                self.gather(marker)

    def _refused(self, subscription: int, error: TocsinError) -> list[Effect]:
        """Who acknowledged something of it hears that this has no marker."""
        waiters = self._waiters.pop(subscription, _Waiters())
        requests = [request for request, _ in waiters.requests]
        connections = dict.fromkeys([*waiters.connections, *waiters.together])
        return refused(subscription, list(connections), requests, error)

    def abandon(self, error: TocsinError) -> list[Effect]:
        """Whoever waits hears why there will be no confirmation."""
        waiting = [request for waiters in self._waiters.values() for request, _ in waiters.requests]
        return [Fail(request, error) for request in waiting]

    def _acked(self, marker: Marker, waiters: _Waiters) -> Acked:
        """All connections hear of it."""
        requests = [request for request, wanted in waiters.requests if _reached(marker, wanted)]
        return Acked(
            marker.subscription,
            marker.epoch,
            marker.position,
            list(waiters.connections),
            requests,
        )


def _not_reached(stored: Marker, waiters: _Waiters) -> _Waiters:
    """Whoever acknowledged more meanwhile goes on waiting."""
    later = _Waiters()
    later.requests = [asked for asked in waiters.requests if not _reached(stored, asked[1])]
    for waiting, still in (
        (waiters.connections, later.connections),
        (waiters.together, later.together),
    ):
        for connection, wanted in waiting.items():
            if not _reached(stored, wanted):
                still[connection] = wanted
    return later


def _is_refusal(error: TocsinError) -> bool:
    """Is it about what was sent, or a fault of the cluster's that this may have brought about?"""
    return isinstance(error, InvalidInput | TooLarge) or type(error) is TocsinError


def _reached(stored: Marker, wanted: Marker) -> bool:
    # A marker of a past epoch will never be stored: its waiters hear of the present one.
    return wanted.epoch != stored.epoch or wanted.position <= stored.position


def refused(
    subscription: int, connections: list[int], requests: list[Asker[Acked]], error: TocsinError
) -> list[Effect]:
    """Who acknowledged what can have no marker hears why."""
    effects: list[Effect] = [Fail(request, error) for request in requests]
    return [*effects, NotAcked(subscription, error, connections)] if connections else effects


def _in_parts(batch: _Batch, most: int) -> list[_Batch]:
    markers = list(batch.items())
    return [dict(markers[start : start + most]) for start in range(0, len(markers), most)]
