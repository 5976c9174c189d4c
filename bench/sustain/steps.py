"""What a step of offered load showed, and whether it was sustained. Pure.

**Sustained** is a step after which every record had come, and during which the backlog did not
grow. How much it grew is read off the latencies, which count from the moment a record was *due*,
whoever was late to send it: the median of the last third of the step, less the median of its
middle third, are the seconds of lag that were added in a third of its time. `achieved` is the
offered rate less that share: 10,000/s during which a second of lag is added every ten seconds are
9,000/s. A step counts as sustained if

1. every record came before the limit of the wait that follows the step,
2. `achieved` is at least 98 % of what was offered; or 95 %, if the growth is less than a quarter
   of the middle's median (batches have phases, which move a median so far),
3. the last third's median is at most twice the middle third's, or 100 ms; and less than a third of
   the step's time, below which nothing can be told of growth.

A step that came near is tried again, twice at most: on a shared machine a failure may be another's.
The beginning of a step is in its p50 and p99, but does not decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bench.sustain.cpu import OTHERS

LEAST_ACHIEVED = 0.98
LEAST_WITHIN_PHASE, PHASE = 0.95, 0.25
QUICK_ENOUGH_MS = 100.0


class Step(Struct, frozen=True, kw_only=True):
    """One rate, offered for some seconds."""

    offered: float
    """Records a second."""
    seconds: float
    records: int
    came: int
    achieved: float
    sustained: bool
    p50_ms: float
    p90_ms: float
    p99_ms: float
    longest_ms: float
    middle_p50_ms: float
    last_p50_ms: float
    send_p99_ms: float
    """How long after its moment a record was durable: part of the latency."""
    cpu_us: Mapping[str, float]
    """By process, per record."""
    others_cores: float
    """How many cores worked for processes that have nothing to do with it: latencies and rates
    count for little if that is not small."""

    @property
    def whole_cpu_us(self) -> float:
        """Of everything but the load generator and those who receive."""
        return sum(us for name, us in self.cpu_us.items() if name not in OUTSIDE)


OUTSIDE = ("load generator", "client")
"""Processes that are not the system's."""


def judge(
    offered: float,
    seconds: float,
    records: int,
    due_us: NDArray[np.int64],
    came_us: NDArray[np.int64],
    cpu_s: Mapping[str, float],
    send_p99_ms: float,
    took_s: float,
) -> Step:
    """`due_us` and `came_us` of the records that came, in any order; one in each of both.
    `took_s`: from the first to the last of `cpu_s`."""
    if not len(due_us):
        due_us = came_us = np.array([0])
        came = 0
    else:
        came = len(due_us)
    waited_ms = (came_us - due_us) / 1000
    begun_us = due_us.min()
    third_us = seconds * 1e6 / 3
    middle = _median(
        waited_ms[(due_us >= begun_us + third_us) & (due_us < begun_us + 2 * third_us)]
    )
    last = _median(waited_ms[due_us >= begun_us + 2 * third_us])
    growth_ms = max(0.0, last - middle)
    within_phase = growth_ms < PHASE * middle
    achieved = offered * max(0.0, 1 - growth_ms / (third_us / 1000)) * came / max(records, 1)
    p50, p90, p99 = (float(each) for each in np.percentile(waited_ms, (50, 90, 99)))
    return Step(
        offered=offered,
        seconds=seconds,
        records=records,
        came=came,
        achieved=achieved,
        sustained=came == records
        and achieved >= offered * (LEAST_WITHIN_PHASE if within_phase else LEAST_ACHIEVED)
        and last <= max(2 * middle, QUICK_ENOUGH_MS)
        and last < third_us / 1000,
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        longest_ms=float(waited_ms.max()),
        middle_p50_ms=middle,
        last_p50_ms=last,
        send_p99_ms=send_p99_ms,
        cpu_us={name: used * 1e6 / max(came, 1) for name, used in cpu_s.items() if name != OTHERS},
        others_cores=cpu_s.get(OTHERS, 0.0) / took_s,
    )


def highest(steps: Sequence[Step]) -> Step | None:
    """The highest rate that was sustained."""
    return max((step for step in steps if step.sustained), key=lambda at: at.offered, default=None)


def at_rate(steps: Sequence[Step], offered: float) -> Step | None:
    """The step of that rate; the better one, if it was tried twice."""
    found = [step for step in steps if step.offered == offered]
    return min(found, key=lambda at: (not at.sustained, at.p50_ms), default=None)


def as_json(steps: Sequence[Step]) -> list[dict[str, object]]:
    return [msgspec.to_builtins(step) for step in steps]


def _median(values: NDArray[np.float64]) -> float:
    return float(np.median(values)) if len(values) else float("inf")
