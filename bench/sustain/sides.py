"""The two that are compared: our system, and the plain Spark job. Each is started with its load
generator and with whoever notes what comes, and then plays steps."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.control import Helper
from bench.sustain.arrivals import Column, load
from bench.sustain.cpu import Cpu, difference
from bench.sustain.plan import Case
from bench.sustain.shapes import CHANNEL, SHAPES
from bench.sustain.steps import Step, judge
from bench.sustain.subscribing import Subscribing, subscribed_system
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import Unavailable
from tocsin.settings import Settings
from tocsin.spark.jars import find_bare_local_fs
from tocsin.system import System

LATE_S, FIRST_LATE_S = 15.0, 90.0
LOOK_S = 0.2


class Servers(msgspec.Struct, frozen=True):
    """What the company's profile stands on."""

    kafka: Kafka
    postgresql: PostgreSQL

    def settings(self, data: Path) -> Settings:
        log = f"{self.kafka.url}/bench{time.time_ns()}"
        return Settings(data=data, log=log, store=self.postgresql.fresh())

    def processes(self) -> list[tuple[str, int]]:
        return [
            (server.title, process.pid)
            for server in (self.kafka, self.postgresql)
            for process in server.processes.values()
        ]


def require_jars() -> None:
    """Without them Spark starts a `chmod` for every file of a checkpoint, and nobody would know why
    the figures are what they are."""
    if find_bare_local_fs() is None:
        raise Unavailable("Spark's jars are not here", hint="call python -m tocsin.spark.jars")


class Side:
    """One that is being measured."""

    def __init__(
        self,
        case: Case,
        folder: Path,
        generator: Helper,
        receivers: Sequence[Helper],
        processes: Sequence[tuple[str, int]],
    ) -> None:
        self.case = case
        self.processes = [*processes, ("load generator", generator.pid)]
        self._folder = folder
        self._generator = generator
        self._receivers = receivers
        self._cpu = Cpu(self.processes)
        self._next = 1  # number of the next record

    async def warm_up(self, rate: float, seconds: float) -> Step:
        """A step that may take its time: nothing has been compiled yet."""
        return await self.step(rate, seconds, FIRST_LATE_S)

    async def step(self, rate: float, seconds: float, late_s: float = LATE_S) -> Step:
        """Offer so many records a second for so long, and wait for what comes of them."""
        first, records = self._next, round(rate * seconds)
        self._next += records
        before, begun = self._cpu.seconds(), time.monotonic()
        played = await self._generator.ask(
            first=first,
            rate=rate,
            seconds=seconds,
            shape=self.case.shape,
            sets=self.case.sets,
            held=self.case.held,
        )
        if "error" in played:
            raise RuntimeError(f"the load generator failed: {played['error']}")
        await self._wait(first, records, late_s + seconds)
        used, took_s = difference(self._cpu.seconds(), before), time.monotonic() - begun
        due_us, came_us = await self._take(first)
        return judge(rate, seconds, records, due_us, came_us, used, played["send_p99_ms"], took_s)

    async def _wait(self, first: int, records: int, limit_s: float) -> None:
        limit = time.monotonic() + limit_s
        while time.monotonic() < limit:
            counts = [await each.ask(op="count", first=first) for each in self._receivers]
            if sum(counted["count"] for counted in counts) >= records:
                return
            await asyncio.sleep(LOOK_S)

    async def _take(self, first: int) -> tuple[Column, Column]:
        files = []
        for number, receiver in enumerate(self._receivers):
            files.append(self._folder / f"arrivals-{number}.npy")
            await receiver.ask(op="take", file=str(files[-1]))
        return load(files, first)


@asynccontextmanager
async def ours(
    case: Case, servers: Servers | None, *, memory: str = Settings().spark_memory
) -> AsyncIterator[Side]:
    """Cluster, coordinator, broker, and clients that hold subscriptions."""
    require_jars()
    shape = SHAPES[case.shape]
    wanted: list[Subscribing] = [
        (_subscriber(case, number), CHANNEL, arguments)
        for number, arguments in enumerate(shape.sets(case.sets))
    ]
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as place, ExitStack() as helpers:
        folder = Path(place)
        settings = servers.settings(folder) if servers else Settings(data=folder)
        settings = msgspec.structs.replace(settings, spark_memory=memory)
        statements = [shape.dataset(), shape.channel(CHANNEL)]
        async with subscribed_system(settings, statements, wanted) as system:
            clients = [
                await application(helpers, system, _subscriber(case, number))
                for number in range(case.clients)
            ]
            generator = await load_generator(helpers, system)
            processes = [(name.replace("_1", ""), system.pid(name)) for name in system.names]
            processes += [("client", client.pid) for client in clients]
            processes += servers.processes() if servers else []
            yield Side(case, folder, generator, clients, processes)
            helpers.close()


@asynccontextmanager
async def plain_spark(case: Case, servers: Servers | None) -> AsyncIterator[Side]:
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as place, ExitStack() as helpers:
        folder = Path(place)
        settings = servers.settings(folder) if servers else Settings(data=folder)
        if servers:
            source = f"plain{time.time_ns()}"
            _make_topic(servers.kafka, source)
            target = ["topic", servers.kafka.address, source]
        else:
            source = tempfile.mkdtemp(dir=folder)
            target = ["files", source]
        job = {
            "settings": {"data": str(folder), "log": settings.log, "store": settings.store},
            "shape": case.shape,
            "sets": case.sets,
            "source": source,
        }
        log = folder / "log"
        running = _helper(helpers, "bench.sustain.plain_spark", job, log)
        generator = _helper(helpers, "bench.sustain.load", target)
        await asyncio.to_thread(running.hear)
        await asyncio.to_thread(generator.hear)
        processes = [("job", running.pid), *(servers.processes() if servers else [])]
        yield Side(case, folder, generator, [running], processes)


async def application(helpers: ExitStack, system: System, subscriber: str) -> Helper:
    """A client that holds everything that the subscriber has."""
    given = [system.coordinator_url, system.token(subscriber, "subscribe")]
    client = _helper(helpers, "bench.sustain.application", given)
    await asyncio.to_thread(client.hear)
    return client


async def load_generator(helpers: ExitStack, system: System) -> Helper:
    given = ["cluster", system.cluster_url, system.token("load", "publish")]
    generator = _helper(helpers, "bench.sustain.load", given)
    await asyncio.to_thread(generator.hear)
    return generator


def _subscriber(case: Case, number: int) -> str:
    """Who has the parameter set with that number."""
    return f"bench-{number % case.clients}" if number < case.held else "others"


def _helper(helpers: ExitStack, module: str, given: Any, log: Path | None = None) -> Helper:
    helper = Helper(module, json.dumps(given), log=log)
    helpers.callback(helper.stop)
    return helper


def _make_topic(kafka: Kafka, name: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.create_topics([NewTopic(name, 1, 1)]).values():
        future.result()
