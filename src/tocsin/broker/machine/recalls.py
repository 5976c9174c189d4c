"""Requests for old messages by clients here: answers are gathered until their time is over."""

from __future__ import annotations

from tocsin.broker.machine.effects import Asker, Recalled, RecalledPublication
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Recall, Router, RoutingEffect


class _Recalling:
    def __init__(self, request: Asker[Recalled], began_at: float, ends_at: float) -> None:
        self.request = request
        self.began_at = began_at
        self.ends_at = ends_at
        self.publications: list[RecalledPublication] = []


class Recalls:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._last = 0
        self._under_way: dict[int, _Recalling] = {}

    def begin(
        self, request: Asker[Recalled], wanted: Filter, wait_s: float, now: float
    ) -> list[RoutingEffect]:
        self._last += 1
        self._under_way[self._last] = _Recalling(request, now, now + wait_s)
        return self._router.requested(self._last, wanted)

    def answered(self, recall: Recall, now: float) -> None:
        recalling = self._under_way.get(recall.request)
        if recalling is not None:
            publication = RecalledPublication(
                recall.publication, recall.hops, now - recalling.began_at
            )
            recalling.publications.append(publication)

    def tick(self, now: float) -> list[RoutingEffect | Recalled]:
        effects: list[RoutingEffect | Recalled] = []
        over = [number for number, recall in self._under_way.items() if recall.ends_at <= now]
        for number in over:
            recalling = self._under_way.pop(number)
            effects += self._router.request_ended(number)
            effects.append(Recalled(recalling.request, recalling.publications))
        return effects

    def abandon(self) -> list[Recalled]:
        """The router is no more: whoever waits gets what there is."""
        return [
            Recalled(recall.request, recall.publications) for recall in self._under_way.values()
        ]
