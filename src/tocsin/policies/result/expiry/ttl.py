"""Adaptive time to live."""

from __future__ import annotations

from tocsin.policies.result.expiry import EXPIRY, LONGEST_TTL_S


@EXPIRY.register("ttl")
def ttl(share: float, budget_bytes: float, growth_bytes_per_s: float) -> float:
    """Keep objects for T_i = n_i/Σn · B/ρ_i, at most a day (BAD IV.B, equation 7).

    `share` is n_i/Σn, the cache's part of all subscribers.
    A cache that was not yet measured for a whole interval has what all of them have together:
    share 1 and the sum of all growth.
    """
    room_bytes = share * budget_bytes
    if room_bytes >= LONGEST_TTL_S * growth_bytes_per_s:
        return LONGEST_TTL_S
    return room_bytes / growth_bytes_per_s
