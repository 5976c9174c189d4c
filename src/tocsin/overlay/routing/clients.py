"""The clients of one dataset at a broker, and up to which position each has its results.

A client is *settled* when everything new that matches comes to it by routing. Until then it waits;
what it missed is filled from the dataset's log, and what comes by routing meanwhile is held. So
each gets what matches it once, in order, even if links break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from tocsin.overlay.filters import Filter
from tocsin.overlay.routing.effects import Deliver, Fill, Gap, RoutingEffect
from tocsin.protocol.link import Publication

State = Literal["waiting", "filling", "settled"]
Stamp = Mapping[tuple[str, int], int]
"""By link and incarnation: the number of the last message about the table that was sent over it."""


class Client:
    __slots__ = ("filter", "held", "holding", "marker", "stamp", "state", "subscription")

    def __init__(self, subscription: int, filter_: Filter, marker: int, stamp: Stamp) -> None:
        self.subscription = subscription
        self.filter = filter_
        self.marker = marker  # all up to here was delivered, or does not match
        self.stamp = stamp  # what must be assured for it to be settled
        self.state: State = "waiting"
        self.held: list[Publication] = []
        self.holding = False  # without a hole since the fill was asked for


class _Filling:
    def __init__(self, upto: int, clients: list[Client]) -> None:
        self.upto = upto
        self.clients = clients


class Clients:
    def __init__(
        self, dataset: str, effects: Callable[[RoutingEffect], None], most_held: int
    ) -> None:
        self._dataset = dataset
        self._do = effects
        self._most_held = most_held
        self._clients: dict[int, Client] = {}
        self._waiting: dict[int, Client] = {}
        self._fills: dict[int, _Filling] = {}
        self._next_fill = 0

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._clients

    def filter_of(self, subscription: int) -> Filter:
        return self._clients[subscription].filter

    def marker_of(self, subscription: int, seen: int) -> int:
        client = self._clients[subscription]
        return max(client.marker, seen) if client.state == "settled" else client.marker

    def add(self, client: Client) -> None:
        self._clients[client.subscription] = self._waiting[client.subscription] = client

    def remove(self, subscription: int) -> None:
        del self._clients[subscription]
        self._waiting.pop(subscription, None)

    def routed(self, publication: Publication, subscriptions: Iterable[int]) -> None:
        """A publication arrived by routing; these subscriptions want it."""
        now: list[int] = []
        for subscription in subscriptions:
            client = self._clients[subscription]
            if publication.position <= client.marker:
                continue
            if client.state == "settled":
                now.append(subscription)
            elif client.holding:
                if len(client.held) < self._most_held:
                    client.held.append(publication)
                else:
                    client.holding = False  # the log has it
        if now:
            self._do(Deliver(now, publication))

    def unsettle(self, seen: int, still: Callable[[Client], bool]) -> None:
        """Settled clients have everything up to `seen`. Those that fail the test wait again."""
        for client in self._clients.values():
            if not still(client):
                client.holding = False
                if client.state == "settled":
                    client.marker = max(client.marker, seen)
                    client.state = "waiting"
                    self._waiting[client.subscription] = client

    def settle(self, seen: int, ready: Callable[[Client], bool]) -> None:
        """The waiting clients that are ready get everything after `seen` by routing."""
        behind: list[Client] = []
        for client in filter(ready, list(self._waiting.values())):
            del self._waiting[client.subscription]
            if client.marker >= seen:
                client.state = "settled"
            else:
                client.state, client.holding = "filling", True
                behind.append(client)
        if behind:
            self._next_fill += 1
            self._fills[self._next_fill] = _Filling(seen, behind)
            after = min(client.marker for client in behind)
            self._do(Fill(self._next_fill, self._dataset, after, seen))

    def filled(
        self,
        fill: int,
        publications: Sequence[Publication],
        floor: int,
        upto: int | None,
        wanted_by: Callable[[Publication], Iterable[int]],
    ) -> None:
        """What the log has of a fill up to a position, behind what was answered before; None: all
        of it. Up to `floor` it keeps nothing."""
        filling = self._fills.get(fill)
        if filling is None:
            return
        reached = filling.upto if upto is None else min(upto, filling.upto)
        there = {
            client.subscription: client
            for client in filling.clients
            if self._clients.get(client.subscription) is client
        }
        for client in there.values():
            lost = min(floor, filling.upto)
            if client.marker < lost:
                self._do(Gap([client.subscription], self._dataset, client.marker, lost))
                client.marker = lost
        for publication in sorted(publications, key=lambda publication: publication.position):
            if publication.position <= reached:
                wanting = [
                    subscription
                    for subscription in wanted_by(publication)
                    if subscription in there and there[subscription].marker < publication.position
                ]
                if wanting:
                    self._do(Deliver(wanting, publication))
        for client in there.values():
            client.marker = max(client.marker, reached)
        if reached == filling.upto:
            del self._fills[fill]
            for client in there.values():
                self._end(client)

    def _end(self, client: Client) -> None:
        for publication in client.held:
            if publication.position > client.marker:
                self._do(Deliver([client.subscription], publication))
                client.marker = publication.position
        client.held = []
        if client.holding:
            client.state, client.holding = "settled", False
        else:
            client.state = "waiting"
            self._waiting[client.subscription] = client
