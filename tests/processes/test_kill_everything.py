"""kill -9 of every service in turn, under load: the promises hold for real processes.

Publishers note what was acknowledged, listeners note what they were shown. Afterwards nothing
acknowledged may be missing, nothing may be stored or shown twice, and order must be kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tocsin.client import Client
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

KINDS = ("flood", "fire", "storm")
STATEMENTS = """
CREATE DATASET reports (id STRING, kind STRING);
CREATE CONTINUOUS CHANNEL at_once(kind STRING) AS
  SELECT r.id FROM NEW reports r WHERE r.kind = :kind;
CREATE CONTINUOUS CHANNEL pushed(kind STRING) PUSH AS
  SELECT r.id FROM NEW reports r WHERE r.kind = :kind;
CREATE REPETITIVE CHANNEL now_and_then(kind STRING) EVERY INTERVAL 2 SECONDS AS
  SELECT r.id FROM NEW reports r WHERE r.kind = :kind;
"""
CHANNELS = ("at_once", "pushed", "now_and_then")
PROBE = "probe"


@pytest.fixture(params=["embedded", "company"])
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Segments and SQLite; Kafka and PostgreSQL, where channels run in real-time mode."""
    settings = Settings(
        data=tmp_path, master="local[2]", java_options=SHORT_LIVED_JAVA, flush_interval_s=3.0
    )
    if request.param == "embedded":
        return settings
    kafka, postgresql = (request.getfixturevalue(name) for name in ("kafka", "postgresql"))
    return msgspec.structs.replace(
        settings,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=2.0,
    )


class Listener:
    """One subscriber to one channel, noting what it was shown."""

    def __init__(self, system: System, name: str, channel: str, kind: str) -> None:
        self.name, self.channel, self.kind = name, channel, kind
        self.shown: list[str] = []
        self.positions: list[int] = []
        self.gaps: list[Any] = []
        self._client = Client(system.coordinator_url, token=system.token(name, "subscribe"))
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        subscription = await self._client.subscribe(self.channel, kind=self.kind)
        self._task = asyncio.create_task(self._listen(subscription))

    async def _listen(self, subscription: Any) -> None:
        async for result in subscription:
            if result.value["id"] != PROBE:
                self.shown.append(result.value["id"])
            self.positions.append(result.position)
            if result.gap is not None:
                self.gaps.append(result.gap)

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._client.close()


class Publisher:
    """Publishes without pause, by plain HTTP. A call whose answer was lost is repeated under its
    key, so what is stored twice was doubled by Tocsin."""

    def __init__(self, system: System) -> None:
        self._url = f"{system.cluster_url}/v1/datasets/reports/records"
        headers = {"Authorization": f"Bearer {system.token('publisher', 'publish')}"}
        self._client = httpx.AsyncClient(headers=headers, timeout=10)
        self.acknowledged: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.stopping = False

    async def run(self, number: int) -> None:
        kinds = itertools.cycle(KINDS)
        for count in itertools.count():
            if self.stopping:
                return
            kind, record = next(kinds), f"{number}-{count}"
            await self.publish(record, kind)
            self.acknowledged[kind].add(record)
            await asyncio.sleep(0.02)

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


async def test_nothing_is_lost_doubled_or_reordered_when_services_are_killed(
    profile: Settings,
) -> None:
    async with System(profile, brokers=2) as system:
        admin = Client(cluster=system.cluster_url, token=system.token("admin", "admin"))
        await admin.sql(STATEMENTS)
        listeners = [
            Listener(system, f"{channel}-{kind}-{number}", channel, kind)
            for channel in CHANNELS
            for kind in KINDS
            for number in range(2)
        ]
        await asyncio.gather(*(listener.start() for listener in listeners))
        publisher = Publisher(system)
        await _heard(listeners, publisher)
        first = await publisher.publish("first", "flood")
        publisher.acknowledged["flood"].add("first")
        publishing = [asyncio.create_task(publisher.run(number)) for number in range(3)]
        await _growing(publisher)
        for victim in ("broker_1", "coordinator", "broker_2", "cluster") * 3:
            await system.kill(victim)
            await asyncio.sleep(0.3)
            await system.ready(victim)
            if victim == "cluster":
                await _growing(publisher)
            else:
                await asyncio.sleep(1.0)
        publisher.stopping = True
        await asyncio.gather(*publishing)
        assert await publisher.publish("first", "flood") == first  # three restarts later
        await publisher.close()
        await _until_quiet(listeners, publisher)

        for listener in listeners:
            counts = Counter(listener.shown)
            assert counts.keys() == publisher.acknowledged[listener.kind], listener.name
            assert max(counts.values()) == 1, f"{listener.name} was shown something twice"
            assert listener.positions == sorted(set(listener.positions)), listener.name
            assert listener.positions == list(range(1, len(listener.positions) + 1)), listener.name
            assert not listener.gaps, listener.name
        (stored,) = await admin.sql(
            "SELECT id, count(*) AS n FROM reports WHERE id <> 'probe' GROUP BY id HAVING n > 1"
        )
        assert stored.rows == []
        (count,) = await admin.sql("SELECT count(*) AS n FROM reports WHERE id <> 'probe'")
        assert count.rows == [[publisher.total]]
        assert all(system.restarts(name) == 3 for name in system.names)
        await asyncio.gather(*(listener.stop() for listener in listeners))
        await admin.close()


async def _heard(listeners: list[Listener], publisher: Publisher) -> None:
    """Wait until every subscription has taken effect: in real-time mode at the next batch."""
    async with asyncio.timeout(120):
        for number in itertools.count():
            if all(listener.positions for listener in listeners):
                return
            for kind in KINDS:
                await publisher.publish(PROBE, kind, key=f"{PROBE}-{kind}-{number}")
            await asyncio.sleep(0.5)


async def _growing(publisher: Publisher) -> None:
    """Wait until publishing works (again)."""
    goal = publisher.total + 20
    async with asyncio.timeout(60):
        while publisher.total < goal:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _until_quiet(listeners: list[Listener], publisher: Publisher) -> None:
    """Until everyone was shown everything acknowledged, or a minute has passed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(90):
            while not all(  # noqa: ASYNC110
                publisher.acknowledged[one.kind] <= set(one.shown) for one in listeners
            ):
                await asyncio.sleep(0.2)
