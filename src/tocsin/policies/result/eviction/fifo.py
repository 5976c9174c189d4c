"""First in, first out."""

from __future__ import annotations

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("fifo")
def fifo(candidate: Candidate) -> float:
    """Drop the object that was cached first, whoever waits for it: the plainest baseline."""
    return candidate.tail_cached_at
