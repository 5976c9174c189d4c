"""What came of a run: counts, and if they were asked for, all steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from tocsin.caching.page_cache import OUTCOMES
from tocsin.caching.ratios import HitRatios


class PageOutcome(HitRatios, Struct, frozen=True, kw_only=True):
    """Pushes that stored a page or were given up; requests; what left."""

    operations: int
    publications: int
    requests: int
    request_bytes: int
    hits: int
    hit_bytes: int
    stored: int
    aborted: int
    miss_stored: int
    miss_not_stored: int
    evicted: int
    evicted_bytes: int
    cached_bytes: int  # at the end
    cache_max_bytes: int
    seconds: float  # that the run took

    def row(self) -> dict[str, int | float]:
        return {
            "hit_ratio": self.hit_ratio,
            "byte_hit_ratio": self.byte_hit_ratio,
            **asdict(self),
        }


@dataclass(frozen=True, slots=True)
class Steps:
    """A number of `OUTCOMES` for each operation; evicted pages and portions, all in one row, up to
    `until` for each."""

    outcome: NDArray[np.uint8]
    evicted: NDArray[np.int32]
    portion: NDArray[np.uint8]
    until: NDArray[np.int64]

    def in_words(self) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Each step in words: its outcome, and who left which portion."""
        evicted = list(zip(self.evicted.tolist(), self.portion.tolist(), strict=True))
        begin = 0
        for outcome, until in zip(self.outcome.tolist(), self.until.tolist(), strict=True):
            yield OUTCOMES[outcome], evicted[begin:until]
            begin = until
