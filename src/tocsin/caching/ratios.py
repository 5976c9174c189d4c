"""Hit ratios of whatever counts its requests and hits."""

from __future__ import annotations


class HitRatios:
    """For a record with these counts."""

    __slots__ = ()

    requests: int
    hits: int
    hit_bytes: int

    @property
    def request_bytes(self) -> int:
        raise NotImplementedError

    @property
    def hit_ratio(self) -> float:
        return self.hits / self.requests if self.requests else 0.0

    @property
    def byte_hit_ratio(self) -> float:
        return self.hit_bytes / self.request_bytes if self.request_bytes else 0.0
