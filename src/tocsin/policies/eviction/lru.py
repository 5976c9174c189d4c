"""Least recently used."""

from __future__ import annotations

from tocsin.policies.candidate import Candidate
from tocsin.policies.eviction import EVICTION


@EVICTION.register("lru")
def lru(candidate: Candidate) -> float:
    """Drop from the least recently accessed cache (BAD V, the list under Table II).

    An access is a get; the put that makes an empty cache non-empty counts as one too.
    """
    return candidate.last_access_at
