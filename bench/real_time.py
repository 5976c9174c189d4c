"""Real time: publish to subscriber in Spark's real-time mode, in micro-batches on Kafka, and in the
embedded profile, side by side.

Real processes and servers. Records come at 200 a second, with 10,000 or 100,000 parameter sets in
the channel, linked by equality or by nearness; each record concerns a subscriber who is connected.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bench.findings import Finding, latency
from tocsin.client import Client
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.throwaway import Throwaway
from tocsin.settings import Settings
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish
from tocsin.system import System

RECORDS_PER_S = 200
TARGET_P50_MS = 25.0
PUBLISHERS = 8
MINE = 100  # parameter sets of the subscriber who is connected
LATE_S = 60.0

DATASET = "CREATE DATASET reports (number BIGINT, type STRING, lat DOUBLE, lon DOUBLE)"
CHANNELS = {
    "equality": "CREATE CONTINUOUS CHANNEL c(type STRING) PUSH AS "
    "SELECT r.number FROM NEW reports r WHERE r.type = :type",
    "nearness": "CREATE CONTINUOUS CHANNEL c(lat DOUBLE, lon DOUBLE, km DOUBLE) PUSH AS "
    "SELECT r.number FROM NEW reports r WHERE near(r.lat, r.lon, :lat, :lon, :km)",
}
PROFILES = ("real-time mode", "Kafka, micro-batches", "embedded")


class Publisher:
    """One connection with as little around it as HTTP allows: publishers are elsewhere, and their
    work is not to be measured here."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._head = (
            "POST /v1/datasets/reports/records HTTP/1.1\r\nHost: cluster\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        )

    @classmethod
    async def connect(cls, url: str, token: str) -> Publisher:
        found = urlsplit(url)
        return cls(*await asyncio.open_connection(found.hostname, found.port), token)

    async def publish(self, record: dict[str, Any]) -> None:
        body = msgspec.json.encode(record)
        self._writer.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(head.decode())
        (length,) = re.findall(rb"content-length: (\d+)", head.lower())
        await self._reader.readexactly(int(length))

    def close(self) -> None:
        self._writer.close()


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    # Java goes on compiling for more than a minute, on the cores that the channels need.
    seconds, warm_up_s = (10.0, 20.0) if quick else (20.0, 90.0)
    findings = []
    with Throwaway() as servers:
        say("starting Kafka and PostgreSQL")
        kafka, postgresql = servers.start(Kafka), servers.start(PostgreSQL)
        for count in (10_000,) if quick else (10_000, 100_000):
            for link in CHANNELS:
                measured = {}
                for profile in PROFILES:
                    say(f"{count:,} parameter sets by {link}: {profile}")
                    settings = _settings(profile, kafka, postgresql)
                    measured[profile] = asyncio.run(
                        _measure(settings, link, count, seconds, warm_up_s)
                    )
                findings += _findings(link, count, measured)
    return findings


def _settings(profile: str, kafka: Kafka, postgresql: PostgreSQL) -> Settings:
    embedded = Settings(spark_memory="2g")
    if profile == "embedded":
        return embedded
    return msgspec.structs.replace(
        embedded,
        log=f"{kafka.url}/bench{time.time_ns()}",
        store=postgresql.fresh(),
        real_time_slots=8 if profile == "real-time mode" else 0,
    )


async def _measure(
    settings: Settings, link: str, count: int, seconds: float, warm_up_s: float
) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        settings = msgspec.structs.replace(settings, data=Path(folder))
        chance = random.Random(1)
        sets = list(_sets(link, count, chance))
        async with System(settings) as system:
            await _sql(system, DATASET, CHANNELS[link])
        store = settings.store or f"sqlite:///{folder}/store.db"
        with Store.open(store) as opened:  # nobody else has it open now
            opened.subscriptions.subscribe_all(
                [Wish(f"other-{number}", "c", one) for number, one in enumerate(sets[MINE:])]
            )
        async with System(settings) as system:
            return await _play(system, link, sets[:MINE], seconds, warm_up_s, chance)


def _sets(link: str, count: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(count):
        if link == "equality":
            yield {"type": f"type-{number}"}
        else:
            yield {"lat": chance.uniform(30, 34), "lon": chance.uniform(-120, -116), "km": 1.0}


async def _sql(system: System, *statements: str) -> None:
    token = system.token("bench", "admin")
    async with Client(cluster=system.cluster_url, token=token) as client:
        for statement in statements:
            await client.sql(statement)


async def _play(
    system: System,
    link: str,
    mine: list[dict[str, Any]],
    seconds: float,
    warm_up_s: float,
    chance: random.Random,
) -> list[float]:
    token = system.token("bench", "publish", "subscribe")
    sent: dict[int, float] = {}
    came: dict[int, float] = {}
    async with Client(system.coordinator_url, cluster=system.cluster_url, token=token) as client:

        async def listen(one: dict[str, Any]) -> None:
            async for result in await client.subscribe("c", **one):
                came.setdefault(result.value["number"], time.perf_counter())

        async def publish(publisher: Publisher, number: int, due: float) -> None:
            one = mine[number % len(mine)]
            place = {"lat": one["lat"], "lon": one["lon"]} if link == "nearness" else one
            sent[number] = due
            await publisher.publish({"number": number, **place})

        listening = [asyncio.create_task(listen(one)) for one in mine]
        first = 0
        limit = time.perf_counter() + LATE_S
        one = await Publisher.connect(system.cluster_url, token)
        while not came:  # until the subscriptions have taken effect
            if time.perf_counter() > limit:
                raise TimeoutError("nothing arrives")
            await publish(one, first, time.perf_counter())
            first += 1
            await asyncio.sleep(0.2)
        begun = time.perf_counter()
        numbers = range(first, first + int(RECORDS_PER_S * (warm_up_s + seconds)))

        async def publish_some(turn: int) -> None:
            """Each at its time; a publisher who is late counts as part of the latency."""
            publisher = await Publisher.connect(system.cluster_url, token)
            for number in numbers[turn::PUBLISHERS]:
                due = begun + (number - first + chance.random()) / RECORDS_PER_S
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                await publish(publisher, number, due)
            publisher.close()

        await asyncio.gather(*map(publish_some, range(PUBLISHERS)))
        limit = time.perf_counter() + LATE_S
        while not came.keys() >= set(numbers) and time.perf_counter() < limit:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
    counted = [one for one in numbers if sent[one] > begun + warm_up_s]
    missing = [one for one in counted if one not in came]
    if missing:
        raise RuntimeError(f"{len(missing)} of {len(counted)} records never arrived")
    return [1000 * (came[one] - sent[one]) for one in counted]


def _findings(link: str, count: int, measured: dict[str, list[float]]) -> list[Finding]:
    ours = measured["real-time mode"]
    return [
        latency(
            f"{link}, {count:,} sets",
            share,
            ours,
            measured[other],
            baseline_is=other,
            target=TARGET_P50_MS if share == 0.5 and other == PROFILES[1] else None,
            details={"records_per_s": RECORDS_PER_S},
        )
        for other in PROFILES[1:]
        for share in (0.5, 0.99)
    ]
