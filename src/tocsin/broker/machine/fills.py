"""What clients of routed datasets missed, read from the dataset's log until all of it was read.

The cluster answers by parts, and each is passed on as it comes: nothing is gathered here. So many
parts are asked for at once; further fills wait for their turn. A part that could not be read is
asked for again, after a while.
"""

from __future__ import annotations

from collections import deque

from tocsin.broker.machine.effects import ReadLog
from tocsin.broker.machine.events import LogPart
from tocsin.broker.machine.retry import Retry
from tocsin.errors import NotFound, TocsinError
from tocsin.overlay.routing import Fill, Router, RoutingEffect

PARTS_AT_ONCE = 16


class _Filling:
    def __init__(self, fill: Fill, retry: Retry) -> None:
        self.fill = fill
        self.retry = retry
        self.after = fill.after


class Fills:
    def __init__(self, router: Router, jitter: float) -> None:
        self._router = router
        self._jitter = jitter
        self._next = 0
        self._fillings: dict[int, _Filling] = {}
        self._retries: dict[int, float] = {}
        self._turns: deque[int] = deque()  # that wait until fewer parts are asked for
        self._asked: set[int] = set()

    def __len__(self) -> int:
        return len(self._fillings)

    def begin(self, fill: Fill) -> list[RoutingEffect | ReadLog]:
        self._next += 1
        self._fillings[self._next] = _Filling(fill, Retry(0.05, 2.0, self._jitter))
        return self._go_on(self._next)

    def read(self, call: ReadLog, part: LogPart) -> list[RoutingEffect | ReadLog]:
        filling = self._fillings[call.fill]
        filling.retry.reset()
        filling.after = max(part.upto, filling.after + 1)
        return self._take(call.fill, part)

    def failed(
        self, call: ReadLog, error: TocsinError, now: float
    ) -> list[RoutingEffect | ReadLog]:
        filling = self._fillings[call.fill]
        if isinstance(error, NotFound):  # the dataset was dropped: nobody misses anything
            filling.after = filling.fill.upto
            return self._take(call.fill, LogPart(-1, filling.after, []))
        self._asked.discard(call.fill)
        self._retries[call.fill] = now + filling.retry.next_s()
        return [*self._ask()]

    def tick(self, now: float) -> list[RoutingEffect | ReadLog]:
        for number in [number for number, due_at in self._retries.items() if due_at <= now]:
            del self._retries[number]
            self._turns.append(number)
        return [*self._ask()]

    def _take(self, number: int, part: LogPart) -> list[RoutingEffect | ReadLog]:
        self._asked.discard(number)
        filling, fill = self._fillings[number], self._fillings[number].fill
        routed = self._router.filled(
            fill.dataset, fill.fill, part.publications, part.floor, filling.after
        )
        return [*routed, *self._go_on(number)]

    def _go_on(self, number: int) -> list[RoutingEffect | ReadLog]:
        filling = self._fillings[number]
        if filling.after < filling.fill.upto:
            self._turns.append(number)
        else:
            del self._fillings[number]
        return [*self._ask()]

    def _ask(self) -> list[ReadLog]:
        asking = []
        while self._turns and len(self._asked) < PARTS_AT_ONCE:
            number = self._turns.popleft()
            self._asked.add(number)
            filling = self._fillings[number]
            asking.append(ReadLog(number, filling.fill.dataset, filling.after, filling.fill.upto))
        return asking
