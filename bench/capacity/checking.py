"""The simulation beside the system: the same rates, judged by the same rule. Pure.

What is compared is how much was achieved (the offered rate less the share by which the lag grew)
and how long records waited. Prices come from loads that were far from too much; how far others kept
the machine's cores busy is what was seen during the step.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.findings import Finding
from bench.sustain.steps import Step, as_json, judge
from tocsin.lab.capacity.costs import Costs
from tocsin.lab.capacity.simulation import Trial, simulate

TARGET = 2.0
"""Times that prediction and measurement may differ. Rates are offered in steps of a factor
of two, so that is how finely a sustained rate is known."""


def predicted(costs: Costs, sets: int, step: Step) -> Step:
    trial = Trial(
        sets=sets,
        records_per_s=step.offered,
        seconds=step.seconds,
        cores=os.cpu_count() or 1,
        others_cores=step.others_cores,
    )
    batches = simulate(costs, trial).batches
    came = [batch for batch in batches if batch.came_s is not None]
    each = [batch.records for batch in came]
    due_us = np.repeat([round(1e6 * batch.due_s) for batch in came], each).astype(np.int64)
    came_us = np.repeat([round(1e6 * (batch.came_s or 0)) for batch in came], each).astype(np.int64)
    records = sum(batch.records for batch in batches)
    return judge(
        step.offered, step.seconds, records, due_us, came_us, {}, 0.0, max(1e-9, step.seconds)
    )


def findings(costs: Costs, sets: int, measured: Sequence[Step]) -> list[Finding]:
    """What is achieved at most, and p50 and p99 at the highest rate that both sustained."""
    simulated = [predicted(costs, sets, step) for step in measured]
    details = {"sets": sets, "measured": as_json(measured), "simulated": as_json(simulated)}
    ours, theirs = (max(step.achieved for step in steps) for steps in (measured, simulated))
    found = [_apart(f"{sets:,} sets: achieved at most", "/s", ours, theirs, details)]
    both = [pair for pair in zip(measured, simulated, strict=True) if pair[0].sustained]
    if both:
        was, said = max(both, key=lambda pair: pair[0].offered)
        at = f"{sets:,} sets, {was.offered:,.0f}/s"
        found.append(_apart(f"{at}: p50", "ms", was.p50_ms, said.p50_ms, {}))
        found.append(_apart(f"{at}: p99", "ms", was.p99_ms, said.p99_ms, {}, target=None))
    return found


def _apart(
    claim: str,
    unit: str,
    measured: float,
    simulated: float,
    details: dict[str, Any],
    target: float | None = TARGET,
) -> Finding:
    """`ours`: how many times they differ, whichever is larger."""
    high, low = max(measured, simulated), max(min(measured, simulated), 1e-9)
    return Finding(
        claim=f"{claim}, measured and simulated differ",
        unit="times",
        ours=high / low,
        baseline=1.0,
        baseline_is="they are the same",
        lower_is_better=True,
        target=target,
        details={"unit": unit, "measured_value": measured, "simulated_value": simulated, **details},
    )
