"""Growth: what a record costs in CPU as parameter sets become more.

Real processes with default settings and 1,000 records a second; each gives one result, to a client
that holds 1,000 of the sets, so that nothing else differs. The baseline is the channel with 1,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bench.findings import Finding
from bench.sustain.plan import case
from bench.sustain.sides import ours
from bench.sustain.steps import Step, as_json

SETS = (1000, 10_000, 100_000, 1_000_000)
QUICK_SETS = (1000, 100_000)
HELD = 1000
RATE = 1000
MEMORY = "2g"  # of Spark, for a million
MOST_GROWTH = 3.0  # to a million sets


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    seconds, warm_up_s = (8.0, 15.0) if quick else (30.0, 60.0)
    steps = {}
    for sets in QUICK_SETS if quick else SETS:
        say(f"{sets:,} parameter sets")
        steps[sets] = asyncio.run(_measure(sets, seconds, warm_up_s))
    first, *more = steps
    return [_finding(first, steps[first], sets, steps[sets]) for sets in more]


async def _measure(sets: int, seconds: float, warm_up_s: float) -> Step:
    async with ours(case("embedded", "equality", sets, HELD), None, memory=MEMORY) as side:
        await side.warm_up(RATE, warm_up_s)
        return await side.step(RATE, seconds)


def _finding(few: int, with_few: Step, many: int, with_many: Step) -> Finding:
    return Finding(
        claim=f"CPU per record with {many:,} sets",
        unit="us",
        ours=with_many.whole_cpu_us,
        baseline=with_few.whole_cpu_us,
        baseline_is=f"{few:,} sets",
        lower_is_better=True,
        target=MOST_GROWTH * with_few.whole_cpu_us,
        details={"steps": as_json([with_few, with_many])},
    )
