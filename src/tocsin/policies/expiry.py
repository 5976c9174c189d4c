"""Expiry: how long may an object stay in its cache?

`ttl_s(share, budget_bytes, growth) -> float`, re-estimated for all caches every
`REESTIMATE_EVERY_S`. The bound on the total size holds in expectation only (BAD IV.B).
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.candidate import Candidate
from tocsin.policies.registry import Registry

TimeToLive = Callable[[float, float, float], float]

EXPIRY: Registry[TimeToLive] = Registry("expiry")

REESTIMATE_EVERY_S = 300.0  # BAD IV.B: "say every 5 minutes"
LONGEST_TTL_S = 24 * 3600.0
"""Guard for ρ → 0: a cache that does not grow (or was not measured yet) keeps objects this long."""
AVERAGE_WEIGHT = 0.5
"""Weight of the newest interval in the moving averages of arrival and consumption."""


def deadline(candidate: Candidate) -> float:
    """When the tail object leaves: T_i after it was cached. Always evaluated with today's T_i."""
    return candidate.tail_cached_at + candidate.ttl_s


def growth(arrival: float, consumption: float) -> float:
    """ρ = (λ − η)+ in bytes per second; η counts consumption only, not expiry (BAD IV.B)."""
    return max(0.0, arrival - consumption)


def moving_average(previous: float, sample: float, weight: float) -> float:
    return previous + weight * (sample - previous)


@EXPIRY.register("ttl")
def ttl(share: float, budget_bytes: float, growth_bytes_per_s: float) -> float:
    """T_i = n_i/Σn · B/ρ_i (BAD, equation 7), at most LONGEST_TTL_S. `share` is n_i/Σn."""
    room_bytes = share * budget_bytes
    if room_bytes >= LONGEST_TTL_S * growth_bytes_per_s:
        return LONGEST_TTL_S
    return room_bytes / growth_bytes_per_s
