"""Earliest to expire."""

from __future__ import annotations

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("exp")
def exp(candidate: Candidate) -> float:
    """Drop the object that expires first, past or future: min creation + T (BAD IV.B, EXP).

    T is that of BAD, equation 7, re-estimated as for `ttl`; nothing leaves before room is needed.
    """
    return candidate.tail_created_at + candidate.ttl_s
