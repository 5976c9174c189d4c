"""What a page cache answers, and what it counts."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar, get_args

from msgspec import Struct

from tocsin.caching.ratios import HitRatios

K = TypeVar("K")
Outcome = Literal["stored", "aborted", "none", "hit", "miss-stored", "miss-not-stored"]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""In the order of their numbers in kernels: a push that stored the page, that was not worth it,
that was no push; a request of a page that is there, that is there now, that is not."""


class Step(Struct, Generic[K], frozen=True):
    """One operation: what became of the page, and which pages left for it, in order, each with the
    portion it left (empty in a cache that is not divided)."""

    outcome: Outcome
    evicted: list[tuple[K, str]] = []


class PageCounters(HitRatios, Struct):
    """hits + misses = requests; stored + miss_stored = evicted + removed + what is there now."""

    publications: int = 0
    stored: int = 0
    aborted: int = 0
    requests: int = 0
    request_bytes: int = 0
    hits: int = 0
    hit_bytes: int = 0
    miss_stored: int = 0
    miss_not_stored: int = 0
    evicted: int = 0
    evicted_bytes: int = 0
    removed: int = 0
    max_bytes: int = 0

    @property
    def misses(self) -> int:
        return self.miss_stored + self.miss_not_stored
