"""Records that the overlay routes by filters, as results of the core's backend subscriptions.

The core serves them like all others: attached, moved, cached, acknowledged. Here the router is kept
in step with what the core serves, and what it delivers becomes results.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import Effect
from tocsin.broker.machine.subscription_table import Backend
from tocsin.model import Result
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Deliver, Gap, Router, RoutingEffect


class RoutedSubscriptions:
    def __init__(self, core: BrokerCore, router: Router) -> None:
        self.router = router
        self._core = core
        self._changes = 0
        # What the router serves. A backend subscription that left and came back is another one:
        # it may go on from an earlier position.
        self._served: dict[int, tuple[Backend, str]] = {}

    @property
    def in_step(self) -> bool:
        return self._changes == self._core.table.refiltered

    def follow(self) -> list[RoutingEffect]:
        """Ask the overlay for what the core serves now."""
        if self.in_step:
            return []
        effects: list[RoutingEffect] = []
        for number in list(self._served):
            if not self._serves(number):
                del self._served[number]
                effects += self.router.unsubscribed(number)
        self._changes = self._core.table.refiltered
        for number, backend in self._core.table.filters.items():
            if number not in self._served:
                self._served[number] = backend, backend.epoch
                wanted = msgspec.convert(backend.filter, Filter)
                effects += self.router.subscribed(number, wanted, backend.fetched)
        return effects

    def deliver(self, routed: Deliver, now: float) -> list[Effect]:
        publication = routed.publication
        payload = msgspec.json.encode(publication.record)
        effects: list[Effect] = []
        for number in self._of(routed.subscriptions):
            result = Result(number, publication.position, publication.at, payload)
            effects += self._core.routed(result, now)
        return effects

    def lose(self, gap: Gap, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for number in self._of(gap.subscriptions):
            effects += self._core.lost(number, gap.upto, now)
        return effects

    def _of(self, numbers: Iterable[int]) -> list[int]:
        """Those that the core still serves: the others begin anew when we follow."""
        return [number for number in numbers if self._serves(number)]

    def _serves(self, number: int) -> bool:
        """As it was when the router was told."""
        backend = self._core.table.filters.get(number)
        return backend is not None and self._served.get(number) == (backend, backend.epoch)
