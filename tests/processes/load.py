"""People who publish and listen, noting what they were told, and what must be true afterwards.

`under_load` is a whole system with such people: a test does something to it, and then judges.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System
from tocsin.testing.chaos.people import CHANNELS, KINDS, REPORTS

STATEMENTS = f"{REPORTS}CREATE DATASET tries (reason STRING);"
EVERY_S = 0.3
AT_ONCE = 4


def short_lived(data: Path, **changes: Any) -> Settings:
    """Of a system that lives for minutes: quick to start, and soon busy with its files."""
    values: dict[str, Any] = {
        "master": "local[2]",
        "warm_up": False,
        "flush_interval_s": 2.0,
        "token_leeway_s": 0.0,  # a test waits for no minute until a token is over
    } | changes
    return Settings(data=data, java_options=SHORT_LIVED_JAVA, **values)


class Listener:
    """One subscriber to one channel, noting what it was shown."""

    def __init__(self, system: System, name: str, channel: str, kind: str) -> None:
        self.name, self.channel, self.kind = name, channel, kind
        self.shown: list[str] = []
        self.positions: list[int] = []
        self.gaps: list[Any] = []
        token, authority = system.token(name, "subscribe"), system.settings.authority
        self._client = Client(system.coordinator_url, token=token, authority=authority)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        subscription = await self._client.subscribe(self.channel, kind=self.kind)
        self._task = asyncio.create_task(self._listen(subscription))

    async def _listen(self, subscription: Any) -> None:
        async for result in subscription:
            self.shown.append(result.value["id"])
            self.positions.append(result.position)
            if result.gap is not None:
                self.gaps.append(result.gap)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._client.close()


class Publisher:
    """Publishes again and again, by plain HTTP, all its tasks at the same moments: so that Spark
    finds records in every run, and has a pause between two. A call whose answer was lost is
    repeated under its key, so what is stored twice was doubled by Tocsin."""

    def __init__(self, system: System) -> None:
        self._url = f"{system.cluster_url}/v1/datasets/reports/records"
        headers = {"Authorization": f"Bearer {system.token('publisher', 'publish')}"}
        trusted = tls(system.settings.authority)
        self._client = httpx.AsyncClient(headers=headers, timeout=10, verify=trusted)
        self.acknowledged: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.stopping = False

    async def run(self, number: int) -> None:
        kinds = itertools.cycle(KINDS)
        for count in itertools.count():
            if self.stopping:
                return
            records = [(next(kinds), f"{number}-{count}-{turn}") for turn in range(AT_ONCE)]
            for kind, record in records:
                await self.publish(record, kind)
                self.acknowledged[kind].add(record)
            await asyncio.sleep(EVERY_S - time.monotonic() % EVERY_S)

    async def publish(self, record: str, kind: str, key: str = "") -> Any:
        """Until it is acknowledged."""
        while True:
            try:
                body = {"id": record, "kind": kind}
                headers = {"Idempotency-Key": key or record}
                answer = await self._client.post(self._url, json=body, headers=headers)
                answer.raise_for_status()
            except httpx.HTTPError:
                await asyncio.sleep(0.2)
            else:
                return answer.json()

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def total(self) -> int:
        return sum(map(len, self.acknowledged.values()))


async def _growing(publisher: Publisher) -> None:
    """Wait until publishing works (again)."""
    goal = publisher.total + 20
    async with asyncio.timeout(60):
        while publisher.total < goal:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _until_quiet(listeners: list[Listener], publisher: Publisher) -> None:
    """Until everyone was shown everything acknowledged, or the time is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(90):
            while not all(  # noqa: ASYNC110
                publisher.acknowledged[listener.kind] <= set(listener.shown)
                for listener in listeners
            ):
                await asyncio.sleep(0.2)


def _audience(system: System) -> list[Listener]:
    """Two who listen to each kind of report on each channel."""
    return [
        Listener(system, f"{channel}-{kind}-{number}", channel, kind)
        for channel in CHANNELS
        for kind in KINDS
        for number in range(2)
    ]


async def _assert_promises(listeners: list[Listener], publisher: Publisher, admin: Client) -> None:
    for listener in listeners:
        counts = Counter(listener.shown)
        assert counts.keys() == publisher.acknowledged[listener.kind], listener.name
        assert max(counts.values()) == 1, f"{listener.name} was shown something twice"
        assert listener.positions == sorted(set(listener.positions)), listener.name
        assert listener.positions == list(range(1, len(listener.positions) + 1)), listener.name
        assert not listener.gaps, listener.name
    (stored,) = await admin.sql("SELECT id, count(*) AS n FROM reports GROUP BY id HAVING n > 1")
    assert stored.rows == []
    (count,) = await admin.sql("SELECT count(*) AS n FROM reports")
    assert count.rows == [[publisher.total]]


class Load:
    """A system under load, from its first record on."""

    def __init__(self, system: System, listeners: list[Listener], publishers: int) -> None:
        self.system = system
        self.publisher = Publisher(system)
        token = system.token("admin", "admin")
        authority = system.settings.authority
        self.admin = Client(cluster=system.cluster_url, token=token, authority=authority)
        self._listeners = listeners
        self._publishers = publishers
        self._publishing: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.admin.sql(STATEMENTS)
        await asyncio.gather(*(listener.start() for listener in self._listeners))
        runs = (self.publisher.run(number) for number in range(self._publishers))
        self._publishing = [asyncio.create_task(run) for run in runs]
        await self.growing()

    async def growing(self) -> None:
        """Wait until publishing works (again)."""
        await _growing(self.publisher)

    async def end(self) -> None:
        """Publish no more."""
        self.publisher.stopping = True
        await asyncio.gather(*self._publishing)

    async def judge(self) -> None:
        """End the load; nothing acknowledged is lost, doubled or out of order."""
        await self.end()
        await _until_quiet(self._listeners, self.publisher)
        await _assert_promises(self._listeners, self.publisher, self.admin)

    async def stop(self) -> None:
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)
        await self.publisher.close()
        await asyncio.gather(*(listener.stop() for listener in self._listeners))
        await self.admin.close()


@asynccontextmanager
async def under_load(
    settings: Settings, *, brokers: int = 1, publishers: int = 3
) -> AsyncIterator[Load]:
    """A system whose listeners all listen, and whose records are being acknowledged."""
    async with System(settings, brokers=brokers) as system:
        load = Load(system, _audience(system), publishers)
        try:
            await load.start()
            yield load
        finally:
            await load.stop()
