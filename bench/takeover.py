"""Takeover: from a fault of the leader until what was published after it is shown to a subscriber.

Real processes and servers: two clusters, of which one stands by, two coordinators, a broker, three
publishers, and a listener to each kind of channel and to a routed dataset; the slowest of them
counts. The baseline is the same system without a standby, whose cluster is killed and started again
at once.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.findings import Finding
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.throwaway import Throwaway
from tocsin.settings import Settings
from tocsin.system import System
from tocsin.system.processes import Process
from tocsin.system.system import ServiceEnvironment
from tocsin.testing.chaos.lines import Lines, to_store
from tocsin.testing.chaos.takeovers import Load, leader_of

TARGET_S = 10.0
STEADY_S = 15.0  # between two faults: Java is warm, and nothing of the last one is left


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    rounds = 1 if quick else 3
    with Throwaway() as servers:
        say("starting Kafka and PostgreSQL")
        kafka, postgresql = servers.start(Kafka), servers.start(PostgreSQL)

        def settings(folder: str, standbys: int) -> Settings:
            return Settings(
                data=Path(folder),
                log=f"{kafka.url}/{uuid.uuid4().hex}",
                store=postgresql.fresh(),
                standbys=standbys,
                coordinators=2,
            )

        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
            alone = asyncio.run(_alone(settings(folder, 0), rounds, say))
        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
            taken = asyncio.run(_taken_over(settings(folder, 1), rounds, say))
    return [
        Finding(
            claim=f"a leader is {what}",
            unit="s until the slowest channel goes on",
            ours=median(max(ways.values()) for ways in times),
            baseline=median(max(ways.values()) for ways in alone),
            baseline_is="no standby: killed, and started again",
            lower_is_better=True,
            target=TARGET_S,
            details={"by_way": times, "alone": alone},
        )
        for what, times in taken.items()
    ]


Times = list[dict[str, float]]
Heal = Callable[[], None]


async def _alone(settings: Settings, rounds: int, say: Callable[[str], None]) -> Times:
    times: Times = []
    async with System(settings) as system, Load(system) as load:
        for _ in range(rounds):
            say("without a standby")
            await asyncio.sleep(STEADY_S)
            at = time.monotonic()
            await system.kill("cluster")
            times.append(await load.shown_since(at))
        _require(await load.broken())
    return times


async def _taken_over(
    settings: Settings, rounds: int, say: Callable[[str], None]
) -> dict[str, Times]:
    lines = Lines()

    def through(name: str, own: Settings) -> Settings:
        return lines.through(name, own) if name.startswith("cluster") else own

    system = System(settings, environment=ServiceEnvironment(through))
    await lines.start()

    async def stop(leader: str) -> Heal:
        Process.of(system.pid(leader)).send(signal.SIGTERM)
        return _nothing

    async def kill(leader: str) -> Heal:
        await system.kill(leader)
        return _nothing

    async def freeze(leader: str) -> Heal:
        process = Process.of(system.pid(leader))
        process.pause()
        return process.resume

    async def cut_off(leader: str) -> Heal:
        proxy = lines.proxies[to_store(leader)]
        proxy.set("stalled")
        return lambda: proxy.set("open")

    faults = {"stopped": stop, "killed": kill, "frozen": freeze, "cut off": cut_off}
    times: dict[str, Times] = {what: [] for what in faults}
    try:
        async with system, Load(system) as load:
            for number in range(rounds):
                for what, fault in faults.items():
                    say(f"{what}, {number + 1} of {rounds}")
                    await asyncio.sleep(STEADY_S)
                    leader, at = await leader_of(system), time.monotonic()
                    restarts = system.restarts(leader)
                    heal = await fault(leader)
                    times[what].append(await load.shown_since(at))
                    heal()
                    while system.restarts(leader) == restarts:  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
                    await system.ready(leader)
            _require(await load.broken())
    finally:
        await lines.close()
    return times


def _nothing() -> None:
    """Its supervisor starts it again."""


def _require(broken: list[str]) -> None:
    if broken:
        raise RuntimeError("; ".join(broken))
