"""A system that plays loads, and what each load took: CPU by process, runs, results, deliveries."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from bench.capacity import memory
from bench.control import Helper
from bench.sustain.cpu import OTHERS, difference
from bench.sustain.plan import Case
from bench.sustain.shapes import CHANNEL, SHAPES
from bench.sustain.sides import LATE_S, Servers, Side, application, load_generator, require_jars
from bench.sustain.subscribing import Subscribing, subscribed_system
from tocsin.settings import Settings
from tocsin.system import System

SPARK_MEMORY = "2g"
NAMES = {"load generator": "publisher", "Java's Python": "cluster"}
SETTLE_S = 0.5


class Played(Struct, frozen=True, kw_only=True):
    """What one load took, in all."""

    of: str
    sets: int
    took_s: float
    records: int
    results: int
    listened_results: int
    """Those of sets to which somebody listens: the broker hears of no others."""
    deliveries: int
    runs: int
    run_s: float
    """All runs together took so long."""
    cpu_s: Mapping[str, float]
    others_cores: float


class Playing(Side):
    """One that also plays loads of which not all records match, or several clients are told."""

    def __init__(self, system: System, receivers: list[Helper], *given: Any) -> None:
        super().__init__(*given)
        self._system = system
        self._all = receivers
        self._receivers = receivers[:1]

    def together(self, clients: int) -> None:
        """So many clients listen; the others end."""
        for receiver in self._all[clients:]:
            receiver.stop()
        self._all = self._all[:clients]
        self._receivers = self._all

    def memory(self) -> dict[str, float]:
        return memory.by_process([*self.processes])

    async def idle(self, seconds: float) -> Played:
        return await self._measured("nothing", asyncio.sleep(seconds), 0)

    async def play(self, of: str, rate: float, seconds: float, asked: int) -> Played:
        """Records that each ask for one of the first `asked` sets, whether there is such a set."""
        first, records = self._next, round(rate * seconds)
        self._next += records
        counted: dict[str, int] = {}

        async def all_of_it() -> None:
            before = (await self._metrics())["results"]
            played = await self._generator.ask(
                first=first,
                rate=rate,
                seconds=seconds,
                shape=self.case.shape,
                sets=self.case.sets,
                held=asked,
                listened=self.case.held,
            )
            if "error" in played:
                raise RuntimeError(f"the load generator failed: {played['error']}")
            wanted = played["listened"] * len(self._receivers)
            await self._wait(first, wanted, LATE_S + seconds)
            await self._until_results(before + played["matching"])
            counted.update(listened_results=played["listened"], deliveries=wanted)

        measured = await self._measured(of, all_of_it(), records)
        return msgspec.structs.replace(measured, **counted)

    async def _until_results(self, expected: float) -> None:
        """Results of sets to which nobody listens are seen in the store alone."""
        for _ in range(20):
            await asyncio.sleep(SETTLE_S)
            if (await self._metrics())["results"] >= expected:
                return

    async def _measured(self, of: str, doing: Any, records: int) -> Played:
        metrics, before = await self._metrics(), self._cpu.seconds()
        began = time.monotonic()
        await doing
        took_s = time.monotonic() - began
        used = difference(self._cpu.seconds(), before)
        after = await self._metrics()
        others = used.pop(OTHERS) / took_s
        cpu_s: dict[str, float] = {}
        for name, spent in used.items():
            name = NAMES.get(name, name)
            cpu_s[name] = cpu_s.get(name, 0.0) + spent
        return Played(
            of=of,
            sets=self.case.sets,
            took_s=took_s,
            records=records,
            results=round(after["results"] - metrics["results"]),
            listened_results=0,
            deliveries=0,
            runs=round(after["runs"] - metrics["runs"]),
            run_s=after["run_s"] - metrics["run_s"],
            cpu_s=cpu_s,
            others_cores=others,
        )

    async def _metrics(self) -> dict[str, float]:
        async with httpx.AsyncClient() as http:
            answer = await http.get(f"{self._system.cluster_url}/metrics")
        names = {
            "results": "tocsin_results_total",
            "runs": "tocsin_run_seconds_count",
            "run_s": "tocsin_run_seconds_sum",
        }
        return {
            name: _metric(answer.raise_for_status().text, written)
            for name, written in names.items()
        }


def _metric(text: str, name: str) -> float:
    found = re.search(rf'^{name}{{channel="{CHANNEL}"}} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@asynccontextmanager
async def playing(case: Case, servers: Servers | None, sharing: int) -> AsyncIterator[Playing]:
    """`sharing` clients listen to each set that is held."""
    require_jars()
    shape = SHAPES[case.shape]
    wanted: list[Subscribing] = [
        (f"bench-{client}" if number < case.held else "others", CHANNEL, arguments)
        for number, arguments in enumerate(shape.sets(case.sets))
        for client in range(sharing if number < case.held else 1)
    ]
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as place, ExitStack() as helpers:
        folder = Path(place)
        settings = servers.settings(folder) if servers else Settings(data=folder)
        settings = msgspec.structs.replace(settings, spark_memory=SPARK_MEMORY)
        statements = [shape.dataset(), shape.channel(CHANNEL)]
        async with subscribed_system(settings, statements, wanted) as system:
            clients = [
                await application(helpers, system, f"bench-{number}") for number in range(sharing)
            ]
            generator = await load_generator(helpers, system)
            processes = [(name.replace("_1", ""), system.pid(name)) for name in system.names]
            processes += [("client", client.pid) for client in clients]
            processes += servers.processes() if servers else []
            yield Playing(system, clients, case, folder, generator, clients, processes)
            helpers.close()
