"""A leader that is killed, frozen or cut off from its store: a standby takes its place, publishers
and subscribers go on by themselves, and nothing is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.client import Client
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import DEPOSED
from tocsin.system import System
from tocsin.system.processes import Process
from tocsin.system.system import ServiceEnvironment
from tocsin.testing.chaos.history import Publication
from tocsin.testing.chaos.lines import Lines, to_store
from tocsin.testing.chaos.people import CHANNELS, STATEMENTS, Publisher

from .load import short_lived

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

WITHIN_S = 20.0  # on a busy machine; the figures are in docs/decisions/0018
SETTLED_S = 60.0
WAYS = {**dict.fromkeys(CHANNELS, "reports"), "dataset/sightings": "sightings"}


class Listener:
    """Somebody who hears of floods, one way or another."""

    def __init__(self, system: System, way: str) -> None:
        self.way = way
        self.shown: list[tuple[str, int, float]] = []
        self.gaps: list[Any] = []
        token = system.token(f"of {way.replace('/', ' ')}", "subscribe")
        self._client = Client(system.coordinator_url, token=token)
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self.way == "dataset/sightings":
            subscribed = await self._client.subscribe_to_dataset("sightings", "kind = 'flood'")
        else:
            subscribed = await self._client.subscribe(self.way, kind="flood")
        subscribed.on_gap(self.gaps.append)
        self._listening = asyncio.create_task(self._listen(subscribed))

    async def _listen(self, subscribed: Any) -> None:
        async for result in subscribed:
            self.shown.append((result.value["id"], result.position, time.monotonic()))

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        await self._client.close()


class Load:
    """Publishers who know all clusters, and one who knows a broker; a listener for each way."""

    def __init__(self, system: System) -> None:
        self.sent: dict[str, Publication] = {}
        urls = [system.cluster_url, system.cluster_url, *system.broker_urls.values()]
        self._publishers = [
            Publisher(number, url, system.token(f"p{number}", "publish"), self.sent)
            for number, url in enumerate(urls)
        ]
        self.listeners = [Listener(system, way) for way in WAYS]
        self._enough = asyncio.Event()
        self._publishing: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await asyncio.gather(*(listener.start() for listener in self.listeners))
        runs = [publisher.run(self._enough) for publisher in self._publishers]
        self._publishing = [asyncio.create_task(run) for run in runs]
        await self.again_since(time.monotonic())

    async def again_since(self, at: float) -> float:
        """Wait until every way shows something that was published since; how long that took."""
        async with asyncio.timeout(SETTLED_S):
            while not all(self._fresh(listener, at) for listener in self.listeners):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        firsts = {listener.way: self._fresh(listener, at)[0] - at for listener in self.listeners}
        w=time.time()-time.monotonic()+at
        stuck=[(p.id, round(p.acknowledged_at-at,2)) for p in self.sent.values() if p.acknowledged_at and p.sent_at<at<p.acknowledged_at]
        print(time.strftime("%H:%M:%S", time.gmtime(w)), w%1, {way: round(first, 2) for way, first in firsts.items()}, stuck)
        return max(firsts.values())

    def _fresh(self, listener: Listener, since: float) -> list[float]:
        return [at for id, _, at in listener.shown if self.sent[id].sent_at > since]

    async def judge(self) -> None:
        self._enough.set()
        async with asyncio.timeout(SETTLED_S):
            await asyncio.gather(*self._publishing)
        assert all(publication.acknowledged_at for publication in self.sent.values())
        for listener in self.listeners:
            kind = f"{WAYS[listener.way]}/flood"
            owed = Counter(p.id for p in self.sent.values() if p.kind == kind)
            async with asyncio.timeout(SETTLED_S):
                while len(listener.shown) < len(owed):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert Counter(id for id, _, _ in listener.shown) == owed, listener.way
            positions = [position for _, position, _ in listener.shown]
            assert positions == sorted(positions), listener.way
            assert not listener.gaps, listener.way

    async def stop(self) -> None:
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)
        for publisher in self._publishers:
            await publisher.close()
        await asyncio.gather(*(listener.stop() for listener in self.listeners))


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
async def system(
    kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path, lines: Lines
) -> AsyncIterator[System]:
    settings = short_lived(
        tmp_path,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=2.0,
        warm_up=True,  # a standby is quick for it
        standbys=1,
        coordinators=2,
    )
    environment = ServiceEnvironment(
        lambda name, own: lines.through(name, own) if name.startswith("cluster") else own
    )
    system = System(settings, brokers=1, environment=environment)
    await lines.start()
    try:
        async with system:
            yield system
    finally:
        await lines.close()


async def leader_of(system: System) -> str:
    async with asyncio.timeout(SETTLED_S):
        while (name := await system.leader()) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return name


async def test_a_standby_takes_the_place_of_a_leader_that_is_killed_frozen_or_cut_off(
    system: System, lines: Lines
) -> None:
    async with Client(cluster=system.cluster_url, token=system.token("admin", "admin")) as admin:
        await admin.sql(STATEMENTS)
    load = Load(system)
    try:
        await load.start()

        leader, killed_at = await leader_of(system), time.monotonic()
        await system.kill(leader)
        assert await load.again_since(killed_at) < WITHIN_S
        await system.ready(leader)  # as a standby

        leader, stopped_at = await leader_of(system), time.monotonic()
        Process.of(system.pid(leader)).send(signal.SIGTERM)  # as for an upgrade
        assert await load.again_since(stopped_at) < WITHIN_S
        await system.ready(leader)

        leader, frozen_at = await leader_of(system), time.monotonic()
        frozen, restarts = Process.of(system.pid(leader)), system.restarts(leader)
        frozen.pause()
        assert await load.again_since(frozen_at) < WITHIN_S
        assert await leader_of(system) != leader
        frozen.resume()
        await until(lambda: system.restarts(leader) > restarts)
        assert system.exit_codes(leader)[-1] == DEPOSED
        await system.ready(leader)

        leader, cut_at = await leader_of(system), time.monotonic()
        lines.proxies[to_store(leader)].set("stalled")
        assert await load.again_since(cut_at) < WITHIN_S
        lines.proxies[to_store(leader)].set("open")
        await load.judge()
    finally:
        await load.stop()


async def until(condition: Any) -> None:
    async with asyncio.timeout(SETTLED_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
