"""Who publishes and who listens during a chaos run. They note what they are told, and no more.

Publishers send each record under a key of its own until it is acknowledged. Subscribers come,
listen for a while, go, and come back; at the end all come and stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from random import Random

from tocsin.client import Client
from tocsin.client.cluster import Cluster
from tocsin.errors import TocsinError
from tocsin.testing.chaos.history import Person, Publication, Shown, Visit

DATASETS = ("reports", "sightings")
KINDS = ("flood", "fire", "storm")
REPORTS = """
CREATE DATASET reports (id STRING, kind STRING);
CREATE CONTINUOUS CHANNEL at_once(kind STRING) AS
  SELECT r.id FROM NEW reports r WHERE r.kind = :kind;
CREATE CONTINUOUS CHANNEL pushed(kind STRING) PUSH AS
  SELECT r.id FROM NEW reports r WHERE r.kind = :kind;
CREATE REPETITIVE CHANNEL now_and_then(kind STRING) EVERY INTERVAL 2 SECONDS AS
  SELECT r.id FROM NEW reports r WHERE r.kind = :kind;
"""
SIGHTINGS = "CREATE DATASET sightings (id STRING, kind STRING) ROUTED;"
STATEMENTS = f"{REPORTS}{SIGHTINGS}"
CHANNELS = ("at_once", "pushed", "now_and_then")
PAUSE_S = 0.2  # between two records of a publisher
RETRY_S = 0.3
STAYS_S = (2.0, 15.0)
AWAY_S = (0.5, 8.0)


def kind_of(dataset: str, kind: str) -> str:
    """What a publication is of, as its history says it."""
    return f"{dataset}/{kind}"


class Publisher:
    """Sends to one service, which may be the cluster or a broker that passes it on."""

    def __init__(self, number: int, url: str, token: str, sent: dict[str, Publication]) -> None:
        self._number = number
        self._service = Cluster(url, token, timeout_s=10.0)
        self._sent = sent
        self._kinds = itertools.cycle(itertools.product(DATASETS, KINDS))

    async def run(self, until: asyncio.Event) -> None:
        for count in itertools.count():
            if until.is_set():
                return
            dataset, kind = next(self._kinds)
            id = f"{self._number}-{count}"
            publication = Publication(id, kind_of(dataset, kind), time.monotonic())
            self._sent[id] = publication
            await self._publish(dataset, {"id": id, "kind": kind})
            publication.acknowledged_at = time.monotonic()
            await asyncio.sleep(PAUSE_S)

    async def _publish(self, dataset: str, record: dict[str, str]) -> None:
        while True:
            try:
                await self._service.publish(dataset, record, key=record["id"])
            except TocsinError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def close(self) -> None:
        await self._service.close()


class Subscriber:
    """One person, whose subscription is made once and resumed by every visit."""

    def __init__(
        self,
        person: Person,
        client: Callable[[], Client],
        channel: str,
        arguments: dict[str, str],
        seed: int,
    ) -> None:
        self.person = person
        self._client = client
        self._channel = channel
        self._arguments = arguments
        self._random = Random(seed)

    async def run(self, everybody_stays: asyncio.Event) -> None:
        """Come and go, until everybody is asked to stay; then stay, until cancelled."""
        while True:
            with contextlib.suppress(TocsinError):  # nobody let us in: come again
                await self._visit(everybody_stays)
            pause_s = RETRY_S if everybody_stays.is_set() else self._random.uniform(*AWAY_S)
            await asyncio.sleep(pause_s)

    async def _visit(self, everybody_stays: asyncio.Event) -> None:
        person = self.person
        async with self._client() as client:
            person.asked_at = person.asked_at or time.monotonic()
            subscribed = await client.subscribe(self._channel, **self._arguments)
            if person.subscribed_at is None:
                person.subscribed_at = time.monotonic()
            visit = Visit()
            person.visits.append(visit)
            async with subscribed as subscription:
                subscription.on_gap(lambda _: _count_gap(visit))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._stay_s(everybody_stays)) as limit:
                        staying = asyncio.create_task(_without_end(everybody_stays, limit))
                        try:
                            async for result in subscription:
                                id, position = result.value["id"], result.position
                                visit.shown.append(Shown(id, position, time.monotonic()))
                        finally:
                            staying.cancel()

    def _stay_s(self, everybody_stays: asyncio.Event) -> float | None:
        return None if everybody_stays.is_set() else self._random.uniform(*STAYS_S)


def _count_gap(visit: Visit) -> None:
    visit.gaps += 1


async def _without_end(everybody_stays: asyncio.Event, limit: asyncio.Timeout) -> None:
    """Who is there when everybody is asked to stay does not go."""
    await everybody_stays.wait()
    limit.reschedule(None)


def audience(client: Callable[[str], Client], each_kind: int, seed: int) -> Iterator[Subscriber]:
    """So many for each channel and kind of publication, and for each filter."""
    ways = [("reports", channel, False) for channel in CHANNELS]
    ways.append(("sightings", "dataset/sightings", True))
    numbers = itertools.count(seed * 1000)
    for (dataset, channel, holes), kind, number in itertools.product(ways, KINDS, range(each_kind)):
        name = f"{channel.replace('/', '_')}-{kind}-{number}"
        arguments = {"where": f"kind = '{kind}'"} if holes else {"kind": kind}
        person = Person(name, kind_of(dataset, kind), holes)

        def connect(name: str = name) -> Client:
            return client(name)

        yield Subscriber(person, connect, channel, arguments, next(numbers))
