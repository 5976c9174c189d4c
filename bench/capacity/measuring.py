"""The loads that are played, and the record that is made of what they took."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import psutil
from msgspec import Struct
from msgspec.structs import replace

from bench.capacity import connections, copies, storage
from bench.capacity.plays import Played, playing
from bench.capacity.prices import BY_PROCESS, others, prices, run_wait_s
from bench.sustain.load import EVERY_S
from bench.sustain.plan import Case
from bench.sustain.shapes import MESSAGE, SHAPES, bodies
from bench.sustain.sides import Servers
from bench.sustain.steps import Step
from tocsin import __version__
from tocsin.lab.capacity.costs import VERSION, Costs, Machine, ProcessCosts, StorageCosts, WireCosts
from tocsin.spark.java import find_java

HELD = 300
SHARING = 4
LOW, HIGH = 300, 1000  # records a second
NOTHING_MATCHES = 10  # times as many sets are asked for as there are
IDLE_S = 4.0
FAR_TOO_MUCH = 0.5  # of what is offered is achieved: higher rates tell nothing more
PUBLISHER_HEAD_BYTES = 400  # of an HTTP request, with its token


class Sizes(Struct, frozen=True, kw_only=True):
    few: int
    between: int
    """In no load that prices are taken from."""
    many: int
    seconds: float
    warm_up_s: float
    rates: tuple[int, ...]
    connections: int
    rounds: int


class System(Struct, frozen=True, kw_only=True):
    """What one system showed."""

    sets: int
    played: Sequence[Played]
    memory_bytes: Mapping[str, float]
    climb: Sequence[Step]


class Alone(Struct, frozen=True):
    """What is measured on parts by themselves, without Spark."""

    connections: connections.OwnConnections
    us_per_copy: float
    storage: StorageCosts


def parts_alone(sizes: Sizes, say: Callable[[str], None]) -> Alone:
    say("a broker whose subscribers have a connection each")
    own = asyncio.run(connections.measure(sizes.connections, sizes.rounds))
    say("results that go to several brokers")
    per_copy = copies.us_per_copy(sizes.rounds)
    say("bytes on disk")
    return Alone(own, per_copy, storage.measure())


async def loads_and_climb(
    profile: str, sizes: Sizes, sets: int, servers: Servers | None, say: Callable[[str], None]
) -> System:
    priced, few = sets != sizes.between, sets == sizes.few
    case = Case(profile, "equality", sets, HELD)
    say(f"{profile}, {sets:,} sets: starting")
    async with playing(case, servers, SHARING if few else 1) as system:
        say(f"{profile}, {sets:,} sets: warming up")
        if few:
            system.together(SHARING)
        await system.play("warm", HIGH / 2, sizes.warm_up_s, HELD)
        played: list[Played] = []
        if few:
            say(f"{profile}, {sets:,} sets: shared by {SHARING} clients")
            played.append(await system.play("shared", HIGH / 2, sizes.seconds, HELD))
            system.together(1)
        if priced:
            say(f"{profile}, {sets:,} sets: loads of known kinds")
            played.append(await system.idle(IDLE_S))
            for of, rate, asked in (
                ("few records", LOW, HELD),
                ("all delivered", HIGH, HELD),
                ("most delivered to nobody", HIGH, sizes.few),
                ("most match nothing", HIGH, NOTHING_MATCHES * sets),
            ):
                played.append(await system.play(of, rate, sizes.seconds, asked))
        memory = await asyncio.to_thread(system.memory)
        climb: list[Step] = []
        for rate in sizes.rates:
            say(f"{profile}, {sets:,} sets: {rate:,} records/s")
            climb.append(await system.step(rate, sizes.seconds))
            if climb[-1].achieved < FAR_TOO_MUCH * rate:
                break
    return System(sets=sets, played=played, memory_bytes=memory, climb=climb)


def record(profile: str, sizes: Sizes, systems: Sequence[System], alone: Alone) -> Costs:
    played = [play for system in systems for play in system.played]
    processes = {name: prices(played, name) for name in BY_PROCESS if _worked(played, name)}
    few = next(system for system in systems if system.sets == sizes.few)
    many = next(system for system in systems if system.sets == sizes.many)
    for name in processes:
        processes[name] = _with_memory(processes[name], name, few, many)
    shared = processes["broker"].us_per_result / connections.SHARED_BY
    own = alone.connections
    processes["broker"] = replace(
        processes["broker"],
        us_per_delivery_apart=max(0.0, own.us_per_delivery - shared),
        bytes_per_set=own.bytes_per_set,
        bytes_per_subscription=own.bytes_per_subscription,
        bytes_per_connection=own.bytes_per_connection,
    )
    processes["cluster"] = replace(processes["cluster"], us_per_copy=alone.us_per_copy)
    sample = list(bodies(SHAPES["equality"], range(100), 100, 0, 10**12))
    head = PUBLISHER_HEAD_BYTES / (HIGH * EVERY_S)
    return Costs(
        version=VERSION,
        profile=profile,
        machine=_machine(others(played)),
        record_bytes=sum(map(len, sample)) / len(sample),
        result_bytes=len(MESSAGE) + 50,
        run_wait_s=run_wait_s(played, processes["Java"], processes["cluster"]),
        processes=processes,
        storage=alone.storage,
        wire=WireCosts(
            bytes_per_record=1 + head,
            bytes_per_notice=own.wire_bytes_per_notice,
            bytes_per_delivery=own.wire_bytes_per_delivery,
        ),
    )


def _worked(played: Sequence[Played], process: str) -> bool:
    return any(play.cpu_s.get(process) for play in played)


def _with_memory(costs: ProcessCosts, name: str, few: System, many: System) -> ProcessCosts:
    """What more sets add, for those that keep all of them."""
    low, high = few.memory_bytes.get(name, 0.0), many.memory_bytes.get(name, 0.0)
    if name not in ("cluster", "Java"):
        return replace(costs, base_bytes=low)
    per_set = max(0.0, (high - low) / (many.sets - few.sets))
    return replace(costs, base_bytes=max(0.0, low - per_set * few.sets), bytes_per_set=per_set)


def _machine(others_cores: float) -> Machine:
    return Machine(
        cores=os.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        java=find_java().name if find_java() else "",  # type: ignore[union-attr]
        tocsin=__version__,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        others_cores=max(0.0, others_cores),
    )
