"""The hits that the best admission has in logs of limited size: between what a run that knows the
future did reach, and what no choice of records can pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tocsin.lab.bounds.admission.dual import ROUNDS, limit_of
from tocsin.lab.bounds.admission.search import improved
from tocsin.lab.bounds.admission.windows import windows_of
from tocsin.lab.bounds.interval import ROUNDING, Interval
from tocsin.lab.simulators.consumer_logs import Logs, Measures, play
from tocsin.lab.workloads.offers import Offers


def certify_retention(
    offers: Offers, logs: Logs, also: Sequence[Measures] = (), *, rounds: int = ROUNDS
) -> Interval:
    """Hits, of the choice that has the most. `also` are measures of other runs of the same."""
    windows = windows_of(offers, logs)
    matched = offers.waiting > 0
    hits, first = improved(windows, matched)
    limit, shares = limit_of(windows, hits, rounds)
    choices = [first, improved(windows, (shares > 0.5) & matched)[1]]
    runs = [*(play(offers, choice, logs)[0] for choice in choices), *also]
    reached = max(run.hits for run in runs)
    if reached > limit * (1 + ROUNDING):
        raise AssertionError("a run beats the bound: measures of other offers or logs?")
    return Interval(reached, math.floor(limit * (1 + ROUNDING)))
