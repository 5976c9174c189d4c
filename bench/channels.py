"""Many continuous channels on one dataset: how long until the last result of a record is there.

Real processes with default settings, 200 records a second: on files and, in real-time mode, on
Kafka and PostgreSQL. One record in forty is what somebody asks for, and gives a result in each
channel; the others are looked at by every channel for nothing. The baseline is the same system with
a single channel.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from bench.control import Helper
from bench.findings import Finding, latency
from bench.sustain.cpu import OTHERS, Cpu, difference
from bench.sustain.shapes import SHAPES
from bench.sustain.sides import (
    FIRST_LATE_S,
    LOOK_S,
    Servers,
    application,
    load_generator,
    require_jars,
)
from bench.sustain.subscribing import Subscribing, subscribed_system
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.throwaway import Throwaway
from tocsin.settings import Settings

RECORDS_PER_S = 200
KINDS = 40
TARGET_P99_MS = 2000.0
SHAPE = SHAPES["equality"]


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    findings = _compared("embedded", None, quick, say)
    with Throwaway() as servers:
        say("starting Kafka and PostgreSQL")
        company = Servers(servers.start(Kafka), servers.start(PostgreSQL))
        findings += _compared("company", company, quick, say)
    return findings


def _compared(
    profile: str, servers: Servers | None, quick: bool, say: Callable[[str], None]
) -> list[Finding]:
    channels, seconds, warm_up_s = (20, 8.0, 15.0) if quick else (100, 30.0, 60.0)
    if servers is not None:
        warm_up_s += 1.5 * Settings().real_time_batch_s  # until then ordinary runs serve, too
    say(f"{profile}: {channels} channels")
    ours = asyncio.run(_measure(channels, seconds, warm_up_s, servers))
    say(f"{profile}: one channel")
    theirs = asyncio.run(_measure(1, seconds, warm_up_s, servers))
    claim = f"{profile}: {channels} channels, {RECORDS_PER_S} records/s, until the last result"
    return [
        latency(
            claim,
            share,
            ours.waited_ms,
            theirs.waited_ms,
            baseline_is="one channel",
            target=target,
            details={"cpu_us": {"ours": ours.cpu_us, "baseline": theirs.cpu_us}},
        )
        for share, target in ((0.5, None), (0.99, TARGET_P99_MS if channels == 100 else None))
    ]


class Measured(Struct):
    waited_ms: list[float]
    cpu_us: dict[str, float]
    """Of each process, per record."""


async def _measure(
    channels: int, seconds: float, warm_up_s: float, servers: Servers | None
) -> Measured:
    require_jars()
    names = [f"c{number}" for number in range(channels)]
    wanted: list[Subscribing] = [("bench", name, SHAPE.arguments(0, KINDS)) for name in names]
    statements = [SHAPE.dataset(), *map(SHAPE.channel, names)]
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as place, ExitStack() as helpers:
        folder = Path(place)
        settings = Settings(data=folder) if servers is None else servers.settings(folder)
        async with subscribed_system(settings, statements, wanted) as system:
            client = await application(helpers, system, "bench")
            generator = await load_generator(helpers, system)
            cpu = Cpu([(name, system.pid(name)) for name in system.names])
            await _play(generator, client, 1, channels, warm_up_s)
            before, first = cpu.seconds(), 1_000_000
            await _play(generator, client, first, channels, seconds)
            used = difference(cpu.seconds(), before)
            await client.ask(op="take", file=str(folder / "arrivals.npy"))
            columns = np.load(folder / "arrivals.npy")
            helpers.close()
    records = RECORDS_PER_S * seconds
    cpu_us = {name: 1e6 * cpu_s / records for name, cpu_s in used.items() if name != OTHERS}
    return Measured(_until_last_ms(columns[:, columns[0] >= first], channels), cpu_us)


async def _play(
    generator: Helper, client: Helper, first: int, channels: int, seconds: float
) -> None:
    """Publish, and wait for all that comes of it."""
    order: dict[str, Any] = {"shape": SHAPE.name, "sets": KINDS, "held": KINDS, "first": first}
    played = await generator.ask(**order, rate=RECORDS_PER_S, seconds=seconds)
    expected = channels * played["of_first"]
    limit = time.monotonic() + seconds + FIRST_LATE_S
    while (counted := await client.ask(op="count", first=first))["count"] < expected:
        if time.monotonic() > limit:
            raise RuntimeError(f"{counted['count']} of {expected} results came")
        await asyncio.sleep(LOOK_S)


def _until_last_ms(columns: Any, channels: int) -> list[float]:
    """Of each record, which has a result in each channel: how long until it has them all."""
    waited: list[float] = []
    for number in np.unique(columns[0]):
        its = columns[:, columns[0] == number]
        if its.shape[1] != channels:
            raise RuntimeError(f"a record has {its.shape[1]} results in {channels} channels")
        waited.append(float((its[2] - its[1]).max()) / 1000)
    return waited
