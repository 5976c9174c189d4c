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
    waiting: int = 0  # of these, how many have not taken the tail object yet, f
    tail_size_bytes: int = 0  # s
    tail_created_at: float = 0.0  # when the cluster made it
    tail_cached_at: float = 0.0  # when this broker cached it
    last_access_at: float = 0.0  # last get, or the put that made the cache non-empty
    fetch_delay_s: float = 0.0  # moving average of fetches from the cluster, l
    ttl_s: float = 0.0  # T_i of equation 7, when an expiry policy runs
