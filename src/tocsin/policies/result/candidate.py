"""What an eviction policy may look at: one result cache, seen through its tail (oldest) object.

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
    spoiled: int = 0  # of those that wait, how many miss an older object already
    away_since_ms: int = 0  # the sum of when those left that wait and are not connected
    tail_size_bytes: int = 0  # s
    tail_created_at: float = 0.0  # when the cluster made it
    tail_cached_at: float = 0.0  # when this broker cached it
    last_access_at: float = 0.0  # last get, or the put that made the cache non-empty
    inflation: float = 0.0  # score of the last victim at that moment: how GreedyDual ages
    fetch_delay_s: float = 0.0  # moving average of fetches from the cluster, l
    ttl_s: float = 0.0  # T_i of BAD, equation 7

    now: float = 0.0  # when it is scored: a score is looked at again only if the cache was touched

    # Moving averages, re-estimated with ttl_s.
    arrival_bytes_per_s: float = 0.0  # λ_i
    arrivals_per_s: float = 0.0  # the same in objects
    hold_s: float = 0.0  # how long an average object can stay: budget over all arrivals
