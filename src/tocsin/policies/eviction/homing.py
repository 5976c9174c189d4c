"""Our own: whose readers will be home soonest?"""

from __future__ import annotations

from tocsin.policies.candidate import Candidate
from tocsin.policies.eviction import EVICTION

ONLINE_PER_S = 1.0
"""Whoever is connected takes an object within about a second."""


@EVICTION.register("homing", looks_ahead=True)
def homing(candidate: Candidate) -> float:
    """Drop what will serve the fewest deliveries per byte and second (ours; docs/lab/homing.md).

    Those who are connected take it at once. Those who are away come back at a rate learned from
    how long people stay away. Objects leave oldest first, so an old object is worth no more than
    the cheapest run of oldest objects it heads, and a run is judged together with what will have
    arrived behind it by the time it is used.
    """
    away = candidate.attached - candidate.online
    coming_bytes = candidate.arrival_bytes_per_s * candidate.hold_s
    coming_worth = away * candidate.arrivals_per_s * candidate.hold_s
    alone = candidate.prefix_worth / candidate.prefix_bytes
    together = (candidate.prefix_worth + coming_worth) / (candidate.prefix_bytes + coming_bytes)
    at_once = candidate.present * ONLINE_PER_S / candidate.tail_size_bytes
    return at_once + candidate.return_rate * min(alone, together)
