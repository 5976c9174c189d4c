"""Least recently used."""

from __future__ import annotations

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("lru")
def lru(candidate: Candidate) -> float:
    """Drop from the least recently accessed cache (BAD V).

    An access is a get; the put that makes an empty cache non-empty counts as one too.
    """
    return candidate.last_access_at
