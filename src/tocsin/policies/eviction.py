"""Eviction: which cache loses its tail object when room is needed?

`score(candidate) -> float`; the smallest score is the victim. Equal scores: the tail that was
cached first, then the smaller backend subscription id (`tie`). A score may change only by what
happens to its own cache, never by the passing of time alone: the cache re-scores only caches
that were touched.
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


@EVICTION.register("lru")
def lru(candidate: Candidate) -> float:
    """Drop from the least recently accessed cache (BAD V, Table II's list of policies).

    An access is a get; the put that makes an empty cache non-empty counts as one too.
    """
    return candidate.last_access_at


@EVICTION.register("lsc")
def lsc(candidate: Candidate) -> float:
    """Least subscribed content: min f (BAD IV.A.2, equation 4).

    Table I prints f/s for it, which is LSCz's criterion; the text means min f.
    """
    return float(candidate.waiting)
