"""Publishers of the simulated world: they send under a key until they are told that it is taken.

What they were told is kept, and held against what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from tocsin.errors import Unavailable
from tocsin.storage.log import Appended
from tocsin.testing.simulation.agenda import Agenda
from tocsin.testing.simulation.checkers import promise
from tocsin.testing.simulation.cluster_process import ClusterProcess

PUBLISHERS, CLUSTER = "publishers", "cluster"
"""What they are called where ways are parted."""
PATIENCE_S = 2.0  # for an answer; then it is sent again


@dataclass
class Request:
    number: int
    dataset: str
    records: list[dict[str, Any]]
    sent_at: float  # for the first time
    taken: list[Appended] = field(default_factory=list)  # as the log said, whoever heard it
    place: Appended | None = None  # as its publisher was told
    heard_at: float = 0.0
    tries: int = 0

    @property
    def key(self) -> str:
        return f"request-{self.number}"


@dataclass
class Publishers:
    """`trouble` says whether something is lost on the way now; `delay_s`, how long it takes;
    `passes`, whether anything gets from the first to the second."""

    process: ClusterProcess
    agenda: Agenda
    random: Random
    trouble: Callable[[], bool]
    delay_s: Callable[[], float]
    passes: Callable[[str, str], bool]
    requests: list[Request] = field(default_factory=list)
    by_id: dict[int, tuple[Request, int]] = field(default_factory=dict)
    refused: int = 0
    repeated: int = 0

    def publish(self, dataset: str, records: list[dict[str, Any]]) -> None:
        request = Request(len(self.requests), dataset, records, self.agenda.now)
        self.requests.append(request)
        if dataset == "reports":
            for index, record in enumerate(records):
                record["id"] = len(self.by_id)
                self.by_id[record["id"]] = request, index
        self._send(request)

    def _send(self, request: Request) -> None:
        if request.place is not None:
            return
        request.tries += 1
        self.repeated += request.tries > 1
        for _ in range(self.random.choice([0, 1, 1, 2]) if self.trouble() else 1):
            late = 10 if self.trouble() else 1
            self.agenda.later(self.delay_s() * late, lambda: self._arrive(request))
        self.agenda.later(PATIENCE_S, lambda: self._send(request))

    def _arrive(self, request: Request) -> None:
        if not self.passes(PUBLISHERS, CLUSTER):
            return
        encoded = [msgspec.json.encode(record) for record in request.records]
        try:
            self.process.publish(
                request.dataset, encoded, request.key, lambda done: self._answered(request, done)
            )
        except Unavailable:
            self.refused += 1

    def _answered(self, request: Request, done: Future[Appended]) -> None:
        """The answer is on its way, whatever becomes of the cluster now."""
        if done.exception() is not None:
            self.refused += 1
            return
        place = done.result()
        request.taken.append(place)
        lost = self.trouble() and self.random.random() < 0.3
        if not lost and self.passes(CLUSTER, PUBLISHERS):
            self.agenda.later(self.delay_s(), lambda: self._hears(request, place))

    def _hears(self, request: Request, place: Appended) -> None:
        known = request.place
        if known is None:
            request.place, request.heard_at = place, self.agenda.now
        else:
            same = (known.first, known.end) == (place.first, place.end)
            lost = self.process.repairs > 0  # perhaps: then it is taken as if for the first time
            promise(same or lost, f"{request.key} was taken at {known}, and again at {place}")
