"""Expiry: how long may an object stay in its cache?

`ttl_s([state,] share, budget_bytes, growth, *parameters) -> float`, re-estimated for all caches
every `REESTIMATE_EVERY_S`. The bound on the total size holds in expectation only (BAD IV.B).
One file a policy.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.registry import Registry
from tocsin.policies.result.candidate import Candidate

TimeToLive = Callable[..., float]

EXPIRY: Registry[TimeToLive] = Registry("expiry", "cache_policy")

LONGEST_TTL_S = 24 * 3600.0
"""Guard for ρ → 0: a cache that does not grow keeps objects this long."""

ESTIMATED = "ttl"
"""Times to live are estimated by this one where no expiry policy is chosen: `exp` reads them."""


def deadline(candidate: Candidate) -> float:
    """When the tail object leaves: T_i after it was cached. Always evaluated with today's T_i."""
    return candidate.tail_cached_at + candidate.ttl_s


EXPIRY.find_all(__name__, __path__)
