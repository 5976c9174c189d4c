"""Our own: whose readers come back soonest?

How soon somebody comes back who has been away for so long is learned from how long absences
lasted: for spans of absence (`ENDS`), how many ended in each, and how much time was spent waiting
in it. The objects of a cache are judged by the run of oldest ones that gives most room for least.
"""

from __future__ import annotations

from msgspec import Struct, field

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.estimates import REESTIMATE_EVERY_S
from tocsin.policies.result.eviction import EVICTION

ONLINE_PER_S = 1.0
"""Whoever is connected takes an object within about a second."""
LOOK_AHEAD = 16
"""How many of a cache's oldest objects are looked at together."""
FIRST_MISS_PER_S = 6.0
"""A subscriber whose reading would begin with a miss waits for the cluster: that is worth this
many deliveries for each second that a fetch takes."""
SPANS = 40
SHORTEST_S = 1.0
ENDS = (*(SHORTEST_S * 2 ** (span / 2) for span in range(SPANS - 1)), float("inf"))
"""Absences are counted in half octaves: span 0 ends here, each next one √2 times later."""


def _zeros() -> list[float]:
    return [0.0] * SPANS


def _once_in_an_interval() -> list[float]:
    return [1.0 / REESTIMATE_EVERY_S] * SPANS


class Absences(Struct):
    """`returns` and `exposure_s` grow with each absence that ends, `rates` follow at every
    re-estimate; the others are of the run of oldest objects that was last looked at."""

    returns: list[float] = field(default_factory=_zeros)
    exposure_s: list[float] = field(default_factory=_zeros)
    rates: list[float] = field(default_factory=_once_in_an_interval)  # returns a second
    waiting: int = 0  # for the last object of the run
    worth: float = 0.0  # of the run
    size_bytes: int = 0
    least_worth: float = 0.0  # of the run that gives most room for least worth,
    least_bytes: int = 0  # and its bytes


def span_of(away_s: float) -> int:
    span = 0
    while away_s > ENDS[span]:
        span += 1
    return span


def absence(state: Absences, away_s: float, returned: bool) -> None:
    """An absence ended: by coming back, or by giving the subscription up."""
    begin = 0.0
    last = span_of(away_s)
    for span in range(last):
        state.exposure_s[span] += ENDS[span] - begin
        begin = ENDS[span]
    state.exposure_s[last] += away_s - begin
    if returned:
        state.returns[last] += 1.0


def reestimate(state: Absences) -> None:
    """How soon somebody comes back who has been away for so long, for each span.

    The Gittins index of the absence: the best ratio of returns to time spent waiting for them,
    over all ways to stop waiting later. Where nothing was seen yet, what was seen before counts.
    """
    last = 1.0 / REESTIMATE_EVERY_S
    for span in range(SPANS):
        best, came, waited_s = 0.0, 0.0, 0.0
        for later in range(span, SPANS):
            came += state.returns[later]
            waited_s += state.exposure_s[later]
            if waited_s > 0.0 and came > best * waited_s:
                best = came / waited_s
        if best == 0.0 and waited_s > 0.0:
            best = min(last, 1.0 / waited_s)  # nobody came in all that time
        if best > 0.0:
            last = best
        state.rates[span] = last


def look(state: Absences, candidate: Candidate, nth: int, size_bytes: int, joining: int) -> bool:
    """Add an object to the run.

    Dropping the oldest k objects gives their bytes and costs their worth: a delivery for each
    subscriber that waits for one, and a wait for the cluster for each whose reading would begin
    with a miss. Of all k up to LOOK_AHEAD the one with the least worth per byte counts.
    """
    first_miss = FIRST_MISS_PER_S * candidate.fetch_delay_s
    if nth == 0:
        state.waiting = joining
        state.worth = joining + first_miss * (joining - candidate.spoiled)
        state.size_bytes = size_bytes
    else:
        state.waiting += joining
        state.worth += state.waiting + first_miss * joining
        state.size_bytes += size_bytes
    if nth == 0 or state.worth * state.least_bytes < state.least_worth * state.size_bytes:
        state.least_worth = state.worth
        state.least_bytes = state.size_bytes
    return nth + 1 < LOOK_AHEAD


@EVICTION.register(
    "return-rate",
    state=Absences,
    absence=absence,
    reestimate=reestimate,
    look=look,
    formerly="homing",
)
def return_rate(state: Absences, candidate: Candidate) -> float:
    """Drop what will serve fewest deliveries per byte and second (ours; docs/lab/return-rate.md).

    Those who are connected take it at once. Those who are away come back at a rate learned from
    how long people stay away. Objects leave oldest first, so an old object is worth no more than
    the cheapest run of oldest objects it heads, and a run is judged together with what will have
    arrived behind it by the time it is used.
    """
    absent = candidate.waiting - candidate.present
    away_s = 0.0
    if absent > 0:
        away_s = max(0.0, candidate.now - candidate.away_since_ms / absent / 1000)
    away = candidate.attached - candidate.online
    coming_bytes = candidate.arrival_bytes_per_s * candidate.hold_s
    coming_worth = away * candidate.arrivals_per_s * candidate.hold_s
    alone = state.least_worth / state.least_bytes
    together = (state.least_worth + coming_worth) / (state.least_bytes + coming_bytes)
    at_once = candidate.present * ONLINE_PER_S / candidate.tail_size_bytes
    return at_once + state.rates[span_of(away_s)] * min(alone, together)
