"""What clients of routed datasets missed, read from the dataset's log until all of it was read.

The cluster answers by parts. A part that could not be read is asked for again, after a while.
"""

from __future__ import annotations

from tocsin.broker.machine.effects import ReadLog
from tocsin.broker.machine.events import LogPart
from tocsin.broker.machine.retry import Retry
from tocsin.errors import NotFound, TocsinError
from tocsin.overlay.routing import Fill, Publication, Router, RoutingEffect


class _Filling:
    def __init__(self, fill: Fill, retry: Retry) -> None:
        self.fill = fill
        self.retry = retry
        self.after = fill.after
        self.floor = -1
        self.publications: list[Publication] = []


class Fills:
    def __init__(self, router: Router, jitter: float) -> None:
        self._router = router
        self._jitter = jitter
        self._next = 0
        self._fillings: dict[int, _Filling] = {}
        self._retries: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._fillings)

    def begin(self, fill: Fill) -> list[RoutingEffect | ReadLog]:
        self._next += 1
        self._fillings[self._next] = _Filling(fill, Retry(0.05, 2.0, self._jitter))
        return self._go_on(self._next)

    def read(self, call: ReadLog, part: LogPart) -> list[RoutingEffect | ReadLog]:
        filling = self._fillings[call.fill]
        filling.retry.reset()
        filling.floor = max(filling.floor, part.floor)
        filling.publications += part.publications
        filling.after = max(part.upto, filling.after + 1)
        return self._go_on(call.fill)

    def failed(
        self, call: ReadLog, error: TocsinError, now: float
    ) -> list[RoutingEffect | ReadLog]:
        filling = self._fillings[call.fill]
        if isinstance(error, NotFound):  # the dataset was dropped: nobody misses anything
            filling.after = filling.fill.upto
            return self._go_on(call.fill)
        self._retries[call.fill] = now + filling.retry.next_s()
        return []

    def tick(self, now: float) -> list[RoutingEffect | ReadLog]:
        effects: list[RoutingEffect | ReadLog] = []
        for number in [number for number, due_at in self._retries.items() if due_at <= now]:
            del self._retries[number]
            effects += self._go_on(number)
        return effects

    def _go_on(self, number: int) -> list[RoutingEffect | ReadLog]:
        filling = self._fillings[number]
        fill = filling.fill
        if filling.after < fill.upto:
            return [ReadLog(number, fill.dataset, filling.after, fill.upto)]
        del self._fillings[number]
        publications = filling.publications
        return [*self._router.filled(fill.dataset, fill.fill, publications, filling.floor)]
