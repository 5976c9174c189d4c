"""Traces of page caches in words: `push a 2 s3`, `note a 2`, `browse a 2`, `new a`, `again a`."""

from __future__ import annotations

from tocsin.caching.page_cache import PageCache
from tocsin.policies.page import parse_page_policy


def cache_of(policy: str, capacity_bytes: int) -> PageCache[str]:
    return PageCache(parse_page_policy(policy), capacity_bytes)


def play(cache: PageCache[str], story: str) -> list[str]:
    """Each line an operation; what came of it: its outcome, and who left."""
    return [did(cache, line) for line in story.strip().splitlines()]


def did(cache: PageCache[str], line: str) -> str:
    what, page, *numbers = line.split("#")[0].split()
    if what in ("new", "again"):
        cache.superseded(page, what == "new")
        return "none"
    size = int(numbers[0])
    if what == "push":
        step = cache.publish(page, size, int(numbers[1].removeprefix("s")))
    else:
        step = cache.request(page, size, what == "note")
    evicted = [f"{gone}:{portion}" if portion else gone for gone, portion in step.evicted]
    return " ".join([step.outcome, *evicted])


def check(policy: str, capacity_bytes: int, story: str) -> PageCache[str]:
    """A story whose lines say what comes of each operation, after `->`."""
    cache = cache_of(policy, capacity_bytes)
    for number, line in enumerate(story.strip().splitlines(), 1):
        operation, _, expected = line.split("#")[0].partition("->")
        found = did(cache, operation)
        assert found == expected.strip(), f"line {number}, {line.strip()!r}: {found}"
    return cache
