"""Where publications enter the overlay: the cluster's stream of records is followed there, and
opened again whenever it breaks."""

from __future__ import annotations

from tocsin.broker.machine.effects import CloseStream, OpenStream
from tocsin.broker.machine.events import Entered, Left, Passed, Published, StreamLine
from tocsin.broker.machine.retry import Retry
from tocsin.overlay.routing import Router, RoutingEffect

NEVER = float("inf")


class Entry:
    def __init__(self, name: str, router: Router, jitter: float) -> None:
        self.broker: str | None = None  # where publications enter, as the coordinator says
        self._name = name
        self._router = router
        self._datasets: set[str] = set()
        self._call: int | None = None  # the stream that is open, or asked for
        self._due_at = NEVER
        self._retry = Retry(0.1, 2.0, jitter)

    def assigned(
        self, broker: str | None, now: float
    ) -> list[RoutingEffect | OpenStream | CloseStream]:
        was_here, self.broker = self.broker == self._name, broker
        if broker == self._name:
            if not was_here:
                self._due_at = now
            return [*self.tick(now)]
        effects: list[RoutingEffect | OpenStream | CloseStream] = []
        self._due_at = NEVER
        if self._call is not None:
            effects.append(CloseStream(self._call))
            self._call = None
        for dataset in sorted(self._datasets):
            effects += self._router.left(dataset)
        self._datasets.clear()
        return effects

    def tick(self, now: float) -> list[OpenStream]:
        if now < self._due_at:
            return []
        self._due_at = NEVER
        return [OpenStream()]

    def opening(self, call: int) -> None:
        """The stream was given this number."""
        self._call = call

    def close(self) -> list[CloseStream]:
        """All that was streamed belongs to a store that is no more."""
        return [] if self._call is None else [CloseStream(self._call)]

    def streamed(self, call: int, line: StreamLine) -> list[RoutingEffect]:
        if call != self._call:
            return []
        self._retry.reset()
        match line:
            case Published(publication, after):
                return self._router.published(publication, after)
            case Entered(dataset, position):
                self._datasets.add(dataset)
                return self._router.entered(dataset, position)
            case Passed(dataset, position):
                return self._router.passed(dataset, position)
            case Left(dataset):
                self._datasets.discard(dataset)
                return self._router.left(dataset)

    def ended(self, call: int, now: float) -> None:
        if call == self._call:
            self._call = None
            self._due_at = now + self._retry.next_s()
