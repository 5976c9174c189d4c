"""What a policy may look at: one result cache, seen through its tail (oldest) object.

BAD IV.A: only tails are candidates, so a cache stands for its tail. Every attribute is a scalar,
because the lab compiles the same policy functions over a structured array with these fields.
"""

from __future__ import annotations

from msgspec import Struct


class Candidate(Struct):
    """Mutable on purpose: the cache keeps one per backend subscription and refreshes it."""

    backend: int = 0
    attached: int = 0  # subscribers of the cache, n_i
    online: int = 0  # of these, how many are connected now
    waiting: int = 0  # of these, how many have not taken the tail object yet, f
    present: int = 0  # of those that wait, how many are connected now
    tail_size_bytes: int = 0  # s
    tail_created_at: float = 0.0  # when the cluster made it
    tail_cached_at: float = 0.0  # when this broker cached it
    last_access_at: float = 0.0  # last get, or the put that made the cache non-empty
    inflation: float = 0.0  # score of the last victim at that moment: how GDSF ages
    fetch_delay_s: float = 0.0  # moving average of fetches from the cluster, l
    ttl_s: float = 0.0  # T_i of equation 7

    # Moving averages, re-estimated with ttl_s.
    arrival_bytes_per_s: float = 0.0  # λ_i
    arrivals_per_s: float = 0.0  # the same in objects
    hold_s: float = 0.0  # how long an average object can stay: budget over all arrivals

    # Kept for policies that look ahead only.
    return_rate: float = 0.0  # how soon those that wait will come back, a second
    prefix_worth: float = 0.0  # of the oldest objects that give most room for least worth:
    prefix_bytes: int = 0  # what they are worth, and their bytes
