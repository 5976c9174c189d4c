"""The fast lane: records that the overlay routes by filters, as results of the core's backend
subscriptions.

The core serves them like all others: attached, moved, cached, acknowledged. Here the router is kept
in step with what the core serves, and what it delivers becomes results. Sans-I/O, like both.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tocsin.broker.attachments import Backend
from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import Effect
from tocsin.model import Result
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Asked, Deliver, Fill, Gap, Recall, Relink, Router, Send
from tocsin.overlay.routing import Effect as Told

Outward = Send | Relink | Fill | Recall | Asked
"""What the router asks of links, of the cluster and of whoever recalls."""


class Lane:
    def __init__(self, router: Router) -> None:
        self.router = router
        self._core: BrokerCore | None = None
        self._changes = -1
        # What the router serves. A backend subscription that left and came back is another one:
        # it may go on from an earlier position.
        self._served: dict[int, tuple[Backend, str]] = {}

    def follow(self, core: BrokerCore) -> list[Told]:
        """Ask the overlay for what the core serves now. To be called whenever something was done
        with the core; it costs little if nothing has changed."""
        filters = core.attachments.filters
        if core is self._core and self._changes == core.attachments.refiltered:
            return []
        told: list[Told] = []
        for number in list(self._served):
            if core is not self._core or not self._serves(core, number):
                del self._served[number]
                told += self.router.unsubscribed(number)
        self._core, self._changes = core, core.attachments.refiltered
        for number, backend in filters.items():
            if number not in self._served:
                self._served[number] = backend, backend.epoch
                wanted = msgspec.convert(backend.filter, Filter)
                told += self.router.subscribed(number, wanted, backend.fetched)
        return told

    def apply(
        self, core: BrokerCore, told: Iterable[Told], now: float
    ) -> tuple[list[Effect], list[Outward]]:
        """Hand the core what the router has for it; what the core asks for then, and what is left
        to do outside."""
        effects: list[Effect] = []
        outward: list[Outward] = []
        for one in told:
            match one:
                case Deliver(numbers, publication):
                    payload = msgspec.json.encode(publication.record)
                    for number in self._of(core, numbers):
                        result = Result(number, publication.position, publication.at, payload)
                        effects += core.routed(result, now)
                case Gap(numbers):
                    for number in self._of(core, numbers):
                        effects += core.lost(number, one.upto, now)
                case _:
                    outward.append(one)
        return effects, outward

    def _of(self, core: BrokerCore, numbers: Iterable[int]) -> list[int]:
        """Those that this core still serves: the others begin anew when we follow."""
        return [one for one in numbers if core is self._core and self._serves(core, one)]

    def _serves(self, core: BrokerCore, number: int) -> bool:
        """As it was when the router was told."""
        backend = core.attachments.filters.get(number)
        return backend is not None and self._served.get(number) == (backend, backend.epoch)
