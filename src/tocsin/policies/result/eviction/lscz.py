"""Least subscribed content, by size."""

from __future__ import annotations

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("lscz")
def lscz(candidate: Candidate) -> float:
    """Drop the object with the fewest subscribers per byte: min f/s (BAD IV.A.1, Table I)."""
    return candidate.waiting / candidate.tail_size_bytes
