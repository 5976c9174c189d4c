"""Publishers and listeners who go through the changes of leaders, and how long each takes.

The publishers know all clusters, or one broker; a listener follows each way in which results come.
Every record is sent until it is acknowledged, and every listener must be shown each of its kind
once, in order.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from tocsin.client import Client
from tocsin.system import System
from tocsin.testing.chaos.history import Publication
from tocsin.testing.chaos.people import CHANNELS, STATEMENTS, Publisher, kind_of

SETTLED_S = 60.0
LOOK_S = 0.02
KIND = "flood"
ROUTED = "dataset/sightings"
WAYS = {**dict.fromkeys(CHANNELS, "reports"), ROUTED: "sightings"}
"""How results come, and of which dataset."""


class Listener:
    """Somebody who hears of floods in one way."""

    def __init__(self, system: System, way: str) -> None:
        self.way = way
        self.shown: list[tuple[str, int, float]] = []  # what, at which position, and when
        self.gaps: list[Any] = []
        token = system.token(f"who listens to {way}", "subscribe")
        self._client = Client(system.coordinator_url, token=token)
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        routed = self.way == ROUTED
        given = {"where": f"kind = '{KIND}'"} if routed else {"kind": KIND}
        subscribed = await self._client.subscribe(self.way, **given)
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
    """Use as an async context manager."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._sent: dict[str, Publication] = {}
        urls = [system.cluster_url, system.cluster_url, *system.broker_urls.values()]
        self._publishers = [
            Publisher(number, url, system.token(f"p{number}", "publish"), self._sent)
            for number, url in enumerate(urls)
        ]
        self._listeners = [Listener(system, way) for way in WAYS]
        self._enough = asyncio.Event()
        self._publishing: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        token = self._system.token("admin", "admin")
        async with Client(cluster=self._system.cluster_url, token=token) as admin:
            await admin.sql(STATEMENTS)
        await asyncio.gather(*(listener.start() for listener in self._listeners))
        runs = [publisher.run(self._enough) for publisher in self._publishers]
        self._publishing = [asyncio.create_task(run) for run in runs]
        await self.shown_since(time.monotonic())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)
        for publisher in self._publishers:
            await publisher.close()
        await asyncio.gather(*(listener.stop() for listener in self._listeners))

    async def shown_since(self, at: float) -> dict[str, float]:
        """Wait until something that was published after that time is shown in every way; after how
        long that was, by way."""
        first: dict[str, float] = {}
        async with asyncio.timeout(SETTLED_S):
            while len(first) < len(self._listeners):
                await asyncio.sleep(LOOK_S)
                for listener in self._listeners:
                    for id, _, shown_at in listener.shown:
                        if self._sent[id].sent_at > at:
                            first.setdefault(listener.way, shown_at - at)
        return first

    async def broken(self) -> list[str]:
        """End it; every promise that was broken, a line each."""
        self._enough.set()
        async with asyncio.timeout(SETTLED_S):
            await asyncio.gather(*self._publishing)
        broken = []
        for listener in self._listeners:
            kind = kind_of(WAYS[listener.way], KIND)
            owed = Counter(sent.id for sent in self._sent.values() if sent.kind == kind)
            until = time.monotonic() + SETTLED_S
            while len(listener.shown) < len(owed) and time.monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
            shown = Counter(id for id, _, _ in listener.shown)
            positions = [position for _, position, _ in listener.shown]
            for what, wrong in (
                ("was not shown", owed - shown),
                ("was shown more than once, or is nothing of its own", shown - owed),
                ("is out of order", positions != sorted(set(positions))),
                ("was told as lost", listener.gaps),
            ):
                if wrong:
                    broken.append(f"{listener.way}: {what}: {wrong}")
        return broken


async def leader_of(system: System) -> str:
    """Wait until a cluster leads; its name."""
    async with asyncio.timeout(SETTLED_S):
        while (name := await system.leader()) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
    return name
