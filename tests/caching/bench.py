"""A result cache on the bench: subscribers, results and positions in a few letters."""

from __future__ import annotations

from tocsin.caching import ResultCache
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
        cache.attach(backend, 0, 0.0, count)
    return cache


def positions(cache: ResultCache, backend: int) -> list[int]:
    return [r.position for r in cache.contents(backend)]
