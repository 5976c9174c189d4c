"""Acknowledgements on their way to the cluster: gathered, conflated, stored, then confirmed.

One batch is under way at a time. Outlives the subscription's stay at this broker: what a client
acknowledged here is stored even if the client has moved on meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection

from tocsin.backoff import delay_s
from tocsin.broker.machine.effects import (
    Acked,
    Asker,
    Effect,
    Fail,
    Marker,
    NotAcked,
    StoreMarkers,
)
from tocsin.broker.machine.gets import unknown_subscription
from tocsin.errors import TocsinError

_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 5.0


class _Waiters:
    """Who is to be told of one subscription's marker. Connections conflate, requests do not."""

    __slots__ = ("connections", "requests")

    def __init__(self) -> None:
        self.connections: dict[int, Marker] = {}  # the newest that each has acknowledged
        self.requests: list[tuple[Asker[Acked], Marker]] = []


class Markers:
    def __init__(self, flush_s: float, now: float) -> None:
        self._gathered: dict[int, Marker] = {}
        self._under_way: dict[int, Marker] | None = None
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

    def latest(self, subscription: int, epoch: str) -> int:
        """The newest acknowledgement that the cluster may not know yet; 0 if there is none."""
        markers = [self._gathered.get(subscription), (self._under_way or {}).get(subscription)]
        positions = [marker.position for marker in markers if marker and marker.epoch == epoch]
        return max(positions, default=0)

    def flush(self, now: float) -> list[Effect]:
        """Store what was gathered for a while."""
        if now < self._flush_at:
            return []
        self._flush_at = now + self._flush_s
        if self._under_way is not None or not self._gathered or now < self._not_before:
            return []
        self._under_way, self._gathered = self._gathered, {}
        return [StoreMarkers(list(self._under_way.values()))]

    def stored(self, unknown: Collection[int]) -> tuple[list[Marker], list[Effect]]:
        """The batch is durable: which markers, and who is told."""
        batch, self._under_way, self._failures = self._under_way or {}, None, 0
        effects: list[Effect] = []
        for subscription, marker in batch.items():
            waiters = self._waiters.pop(subscription, None)
            if subscription in unknown:
                self._gathered.pop(subscription, None)
                if waiters is not None:
                    requests = [request for request, _ in waiters.requests]
                    effects += refused(subscription, list(waiters.connections), requests)
            elif waiters is not None:
                effects.append(self._acked(marker, waiters))
        return [m for s, m in batch.items() if s not in unknown], effects

    def failed(self, now: float) -> None:
        batch, self._under_way = self._under_way or {}, None
        newer, self._gathered = self._gathered, batch
        for marker in newer.values():
            self.gather(marker)
        self._not_before = now + delay_s(self._failures, _FIRST_RETRY_S, _LONGEST_RETRY_S)
        self._failures += 1

    def abandon(self, error: TocsinError) -> list[Effect]:
        """Whoever waits hears why there will be no confirmation."""
        waiting = [request for waiters in self._waiters.values() for request, _ in waiters.requests]
        return [Fail(request, error) for request in waiting]

    def _acked(self, marker: Marker, waiters: _Waiters) -> Acked:
        """All connections hear of it; whoever acknowledged more meanwhile goes on waiting."""
        requests = [request for request, wanted in waiters.requests if _reached(marker, wanted)]
        later = _Waiters()
        later.requests = [
            (request, wanted)
            for request, wanted in waiters.requests
            if not _reached(marker, wanted)
        ]
        later.connections = {
            connection: wanted
            for connection, wanted in waiters.connections.items()
            if not _reached(marker, wanted)
        }
        if later.requests or later.connections:
            self._waiters[marker.subscription] = later
        return Acked(
            marker.subscription,
            marker.epoch,
            marker.position,
            list(waiters.connections),
            requests,
        )


def _reached(stored: Marker, wanted: Marker) -> bool:
    # A marker of a past epoch will never be stored: its waiters hear of the present one.
    return wanted.epoch != stored.epoch or wanted.position <= stored.position


def refused(
    subscription: int, connections: list[int], requests: list[Asker[Acked]]
) -> list[Effect]:
    """Who acknowledged what is nobody's, or another's, hears so."""
    error = unknown_subscription(subscription)
    effects: list[Effect] = [Fail(request, error) for request in requests]
    return [*effects, NotAcked(subscription, error, connections)] if connections else effects
