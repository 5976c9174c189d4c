"""A result cache on the bench: subscribers, results and positions in a few letters."""

from __future__ import annotations

from tocsin.caching import ResultCache, Standing
from tocsin.model import Result
from tocsin.policies import parse_policy


def result(
    backend: int, position: int, size_bytes: int = 10, created_at: float | None = None
) -> Result:
    made = float(position) if created_at is None else created_at
    return Result(backend, position, made, b"x" * size_bytes)


def cache_with(policy: str, budget_bytes: int, **subscribers: int) -> ResultCache:
    """Backends 1, 2, … with so many connected subscribers each: `b1=2, b2=1`."""
    cache = ResultCache(parse_policy(policy), budget_bytes)
    for name, count in subscribers.items():
        backend = int(name[1:])
        cache.open(backend, 0)
        join(cache, backend, count, 0.0)
    return cache


def join(
    cache: ResultCache, backend: int, subscribers: int, now: float, *, away: bool = False
) -> None:
    """So many that have taken nothing yet."""
    for _ in range(subscribers):
        cache.attach(backend, at(0, now if away else None), now)


def at(marker: int, away_since: float | None = None) -> Standing:
    """One of those who stand there: a cache cannot tell them apart."""
    return Standing(marker, away_since)


def positions(cache: ResultCache, backend: int) -> list[int]:
    return [r.position for r in cache.contents(backend)]
