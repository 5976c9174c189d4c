"""Least subscriber delay."""

from __future__ import annotations

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("lsd")
def lsd(candidate: Candidate) -> float:
    """Drop the object that saves least delay per byte: min f·l/s (BAD IV.A.3, Table I).

    l is the moving average of what a fetch from the cluster takes.
    """
    return candidate.waiting * candidate.fetch_delay_s / candidate.tail_size_bytes
