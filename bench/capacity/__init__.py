"""Capacity: the price of each single thing on this machine, for `tocsin plan capacity --costs`; and
whether the simulation that uses them says what the real system then does.

Loads that are far from too much give the prices: at a low and a higher rate, with records of which
some or most match nothing, with results that four clients share, with few and with many parameter
sets. Then the rate is raised until it is too much, with three numbers of sets, of which one was
in none of these loads: what the simulation says of the same rates is what it is compared with.

    python -m bench capacity [--quick]
    python -m bench.capacity --profile company --costs FILE
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from bench.capacity import checking
from bench.capacity.measuring import Sizes, loads_and_climb, parts_alone, record
from bench.capacity.tables import tables as tables
from bench.findings import RESULTS, Finding
from bench.sustain.sides import Servers
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.throwaway import Throwaway
from tocsin.lab.capacity.costs import Costs, encode

QUICK = Sizes(
    few=1000,
    between=10_000,
    many=100_000,
    seconds=6.0,
    warm_up_s=12.0,
    rates=(500, 1000, 2000, 4000, 8000),
    connections=300,
    rounds=20,
)
WHOLE = Sizes(
    few=1000,
    between=10_000,
    many=100_000,
    seconds=20.0,
    warm_up_s=60.0,
    rates=(500, 1000, 2000, 4000, 8000, 16_000),
    connections=1000,
    rounds=60,
)


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    costs, findings = measure("embedded", QUICK if quick else WHOLE, say)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "costs-embedded.json").write_bytes(encode(costs))
    return findings


def measure(profile: str, sizes: Sizes, say: Callable[[str], None]) -> tuple[Costs, list[Finding]]:
    alone = parts_alone(sizes, say)
    with ExitStack() as stack:
        servers = None
        if profile == "company":
            say("starting Kafka and PostgreSQL")
            throwaway = stack.enter_context(Throwaway())
            servers = Servers(throwaway.start(Kafka), throwaway.start(PostgreSQL))
        systems = [
            asyncio.run(loads_and_climb(profile, sizes, sets, servers, say))
            for sets in (sizes.few, sizes.many, sizes.between)
        ]
    costs = record(profile, sizes, systems, alone)
    findings = []
    for system in sorted(systems, key=lambda system: system.sets):
        findings += checking.findings(costs, system.sets, system.climb)
    findings[0].details["costs"] = msgspec.to_builtins(costs)
    findings[0].details["played"] = [
        msgspec.to_builtins(play) for system in systems for play in system.played
    ]
    return costs, findings
