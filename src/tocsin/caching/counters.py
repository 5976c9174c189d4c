"""What a broker's result caches count and measure."""

from __future__ import annotations

from msgspec import Struct


class CacheCounters(Struct):
    """inserted = evicted + expired + consumed + dropped + what is cached now."""

    hits: int = 0
    hit_bytes: int = 0
    misses: int = 0
    miss_bytes: int = 0
    inserted: int = 0
    inserted_bytes: int = 0
    bypassed: int = 0  # not cached: too large, refused, the victim itself, or nobody waits
    evicted: int = 0
    evicted_bytes: int = 0
    expired: int = 0
    expired_bytes: int = 0
    consumed: int = 0  # nobody waits for it any longer
    consumed_bytes: int = 0
    dropped: int = 0  # older than a bypassed one, of a past epoch, or the policy was switched off
    dropped_bytes: int = 0
    max_bytes: int = 0
    byte_s: float = 0.0  # integral of the size over time
    overshoot_byte_s: float = 0.0  # the same for the bytes above the budget
    held_s: float = 0.0  # how long objects stayed, summed over all that left
    estimates: int = 0  # how often times to live were re-estimated
    # A holding time is of an object, so a time to live counts once for each object that was given
    # it when it was cached. A cache that does not grow gives none: the guard is no estimate.
    ttls: int = 0
    ttl_s: float = 0.0  # their sum
    planned_bytes: float = 0.0  # Σρ_i·T_i, summed over the estimates

    @property
    def hit_ratio(self) -> float:
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0
