"""GreedyDual-Size-Frequency."""

from __future__ import annotations

from tocsin.policies.result.candidate import Candidate
from tocsin.policies.result.eviction import EVICTION


@EVICTION.register("gdsf", counts_requests=True)
def gdsf(candidate: Candidate) -> float:
    """Drop the object with the least L + f·l/s, where L ages (Arlitt et al. 2000, BAD's [21]).

    f is the number of subscribers that will still ask for it, l what a fetch takes, and L the
    score of the last victim when the cache was last accessed: what is not accessed for long
    falls behind what comes later. Where nobody subscribes, f is what it was before BAD: requests.
    """
    worth = candidate.waiting * candidate.fetch_delay_s / candidate.tail_size_bytes
    return candidate.inflation + worth
