"""Eviction: which cache loses its tail object when room is needed?

`score(candidate) -> float`; the smallest score is the victim. Equal scores: the tail that was
cached first, then the smaller backend subscription id (`tie`). A score may change only by what
happens to its own cache or by a re-estimate, never by the passing of time alone: the cache
re-scores only caches that were touched. One file a policy.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.candidate import Candidate
from tocsin.policies.registry import Registry

Score = Callable[[Candidate], float]

EVICTION: Registry[Score] = Registry("eviction")


def tie(candidate: Candidate) -> tuple[float, int]:
    """The fixed order among equal scores."""
    return candidate.tail_cached_at, candidate.backend


EVICTION.find_all(__name__, __path__)
