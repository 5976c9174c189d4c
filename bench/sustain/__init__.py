"""Sustain: offered load is raised until it is no longer sustained (`steps` says what that means).

Real processes with default settings. At each step: latency from the moment a record was due to the
application that has its result, and the CPU of each process per record. The baseline, in the same
run on the same machine at the same steps, is the same join as a plain Spark Structured Streaming
job that bulk-writes its matches to the same kind of database and does nothing else (`plain_spark`).

    python -m bench sustain [--quick]
    python -m bench.sustain --profile company --shape near --sets 100000 …
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench.findings import Finding
from bench.sustain.climbing import Climb, climb, findings_of
from bench.sustain.climbing import tables as tables
from bench.sustain.plan import QUICK, WHOLE, Case, Pace
from bench.sustain.sides import Servers, ours, plain_spark
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.throwaway import Throwaway


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    return measure(*(QUICK if quick else WHOLE), say)


def measure(cases: Sequence[Case], pace: Pace, say: Callable[[str], None]) -> list[Finding]:
    findings = []
    with ExitStack() as stack:
        servers = None
        for case in cases:
            if case.profile == "company" and servers is None:
                say("starting Kafka and PostgreSQL")
                throwaway = stack.enter_context(Throwaway())
                servers = Servers(throwaway.start(Kafka), throwaway.start(PostgreSQL))
            under = servers if case.profile == "company" else None
            climbed = asyncio.run(_both(case, pace, under, say))
            findings += findings_of(case, *climbed)
    return findings


async def _both(
    case: Case, pace: Pace, servers: Servers | None, say: Callable[[str], None]
) -> tuple[Climb, Climb]:
    climbs = []
    for name, side in (("ours", ours), ("plain Spark", plain_spark)):
        say(f"{case.title}: {name}, starting")
        async with side(case, servers) as started:
            climbs.append(await climb(started, pace, say, f"{case.title}: {name}"))
    return climbs[0], climbs[1]
