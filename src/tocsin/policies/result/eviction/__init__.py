"""Eviction: which cache loses its tail object when room is needed?

`score([state,] candidate, *parameters) -> float`; the smallest score is the victim. Equal scores:
the tail that was cached first, then the smaller backend subscription id (`tie`). A score may change
only by what happens to its own cache or by a re-estimate, never by the passing of time alone: the
cache re-scores only caches that were touched. One file a policy.

A policy that keeps state declares its record, one for all caches of a broker, and which of these
functions fill it. Each takes the state first and the policy's parameters last:

`absence(state, away_s, returned)`: a subscriber that was away has come back, or left for good;
`reestimate(state)`: the caches' moving averages are made anew;
`look(state, candidate, nth, size_bytes, joining) -> bool`: before a score, the cache's objects from
the tail on: the size of each and how many would begin to read there (all that wait, for the tail).
The answer says whether to go on to the next.

`counts_requests=True`: where nobody subscribes, requests stand for those who wait (`waiting`).
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.registry import Registry
from tocsin.policies.result.candidate import Candidate

Score = Callable[..., float]

EVICTION: Registry[Score] = Registry(
    "eviction", "cache_policy", declares=("absence", "reestimate", "look", "counts_requests")
)


def tie(candidate: Candidate) -> tuple[float, int]:
    """The fixed order among equal scores."""
    return candidate.tail_cached_at, candidate.backend


EVICTION.find_all(__name__, __path__)
