"""Least subscribed content."""

from __future__ import annotations

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("lsc")
def lsc(candidate: Candidate) -> float:
    """Drop the object with the fewest subscribers: min f (BAD IV.A.2, equation 4).

    BAD, Table I prints f/s for it, which is LSCz's criterion; the text means min f.
    """
    return float(candidate.waiting)
