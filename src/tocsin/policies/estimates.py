"""What a cache measures about itself and its subscribers, as functions over scalars and arrays.

The live cache calls them on lists, the lab compiles them for arrays: they must stay that plain.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

REESTIMATE_EVERY_S = 300.0  # BAD IV.B: "say every 5 minutes"
AVERAGE_WEIGHT = 0.5
"""Weight of the newest interval in moving averages."""
LOOK_AHEAD = 16
"""How many of a cache's oldest objects are looked at together by policies that look ahead."""
FIRST_MISS_PER_S = 6.0
"""A subscriber whose reading would begin with a miss waits for the cluster: that is worth this
many deliveries for each second that a fetch takes."""

BINS = 40
SHORTEST_AWAY_S = 1.0
"""Absences are counted in half octaves: bin 0 ends here, each next one √2 times later."""


def moving_average(previous: float, sample: float, weight: float) -> float:
    return previous + weight * (sample - previous)


def growth(arrival: float, consumption: float) -> float:
    """ρ = (λ − η)+ in bytes per second; η counts consumption only, not expiry (BAD IV.B)."""
    return max(0.0, arrival - consumption)


def bin_ends() -> list[float]:
    return [SHORTEST_AWAY_S * 2 ** (k / 2) for k in range(BINS - 1)] + [float("inf")]


def bin_of(ends: Sequence[float], away_s: float) -> int:
    k = 0
    while away_s > ends[k]:
        k += 1
    return k


def observe(
    ends: Sequence[float],
    returns: MutableSequence[float],
    exposure_s: MutableSequence[float],
    away_s: float,
    returned: bool,
) -> None:
    """An absence ended: by coming back, or by giving the subscription up."""
    begin = 0.0
    k = 0
    while away_s > ends[k]:
        exposure_s[k] += ends[k] - begin
        begin = ends[k]
        k += 1
    exposure_s[k] += away_s - begin
    if returned:
        returns[k] += 1.0


def rate_returns(
    returns: Sequence[float], exposure_s: Sequence[float], rates: MutableSequence[float]
) -> None:
    """How soon somebody comes back who has been away for so long, for each bin of absences.

    The Gittins index of the absence: the best ratio of returns to time spent waiting for them,
    over all ways to stop waiting later. Where nothing was seen yet, what was seen before counts.
    """
    last = 1.0 / REESTIMATE_EVERY_S
    for k in range(BINS):
        best, came, waited_s = 0.0, 0.0, 0.0
        for later in range(k, BINS):
            came += returns[later]
            waited_s += exposure_s[later]
            if waited_s > 0.0 and came > best * waited_s:
                best = came / waited_s
        if best == 0.0 and waited_s > 0.0:
            best = min(last, 1.0 / waited_s)  # nobody came in all that time
        if best > 0.0:
            last = best
        rates[k] = last
