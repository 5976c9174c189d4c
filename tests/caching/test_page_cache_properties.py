"""What holds for every page cache, whatever happens to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caching.made_up_pages import CAPACITIES, POLICIES, operations
from tocsin.caching.page_cache import PageCache, Step
from tocsin.errors import InvalidInput
from tocsin.lab.simulators.page_cache.live import run_live
from tocsin.lab.workloads.pages.operations import (
    BROWSE,
    NOTIFIED,
    PUBLISH,
    RENEWED,
    SUPERSEDED,
    Operations,
)
from tocsin.policies.page import parse_page_policy

Told = tuple[int, int, int, int]


def rows(done: Operations) -> list[Told]:
    columns = (done.kind, done.page, done.size_bytes, done.subscriptions)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def did(cache: PageCache[int], row: Told) -> Step[int]:
    kind, page, size_bytes, subscriptions = row
    if kind in (SUPERSEDED, RENEWED):
        cache.superseded(page, kind == SUPERSEDED)
        return Step("none")
    if kind == PUBLISH:
        return cache.publish(page, size_bytes, subscriptions)
    return cache.request(page, size_bytes, kind == NOTIFIED)


def standing(cache: PageCache[int], *, but: int) -> Any:
    """All that decides what happens next, but for what is remembered of one page, and for values
    that time alone changes."""
    timeless = not cache.policy.ages
    return [
        (
            one.limit_bytes,
            one.size_bytes,
            one.age,
            one.evicted_at,
            {
                key: (held.value, held.set_at) if timeless else ()
                for key, held in one.pages.items()
                if key != but
            },
        )
        for one in cache._portions
    ]


@given(operations(), POLICIES, CAPACITIES)
def test_neither_budget_nor_portions_are_exceeded(
    done: Operations, policy: str, capacity: int
) -> None:
    cache: PageCache[int] = PageCache(parse_page_policy(policy), capacity)
    sizes: dict[int, int] = {}
    for row in rows(done):
        there = {page for page in range(done.pages) if page in cache}
        step = did(cache, row)
        assert cache.size_bytes <= capacity
        assert sum(limit for _, limit in cache.portions.values()) <= capacity
        assert all(0 <= size <= limit for size, limit in cache.portions.values())
        if policy.startswith("dc") and not policy.startswith("dc-ta") and capacity > 1:
            assert all(
                capacity <= 4 * limit <= 3 * capacity for _, limit in cache.portions.values()
            )
        # What a step tells is what happened: whoever keeps the bytes can follow.
        sizes[row[1]] = row[2]
        there -= {page for page, _ in step.evicted}
        there |= {row[1]} if step.outcome in ("stored", "miss-stored") else set()
        assert there == {page for page in range(done.pages) if page in cache}
        assert cache.size_bytes == sum(sizes[page] for page in there)
        assert len(cache) == len(there)


@given(operations(), POLICIES, CAPACITIES)
def test_hits_and_misses_are_all_requests(done: Operations, policy: str, capacity: int) -> None:
    cache: PageCache[int] = PageCache(parse_page_policy(policy), capacity)
    for row in rows(done):
        there = row[1] in cache
        step = did(cache, row)
        if row[0] in (BROWSE, NOTIFIED):
            assert (step.outcome == "hit") == there
    counters = cache.counters
    assert counters.hits + counters.misses == counters.requests == done.requests
    assert counters.stored + counters.miss_stored == counters.evicted + len(cache)
    assert counters.max_bytes <= capacity


@given(operations(), POLICIES, CAPACITIES)
def test_an_aborted_placement_changes_nothing(done: Operations, policy: str, capacity: int) -> None:
    cache: PageCache[int] = PageCache(parse_page_policy(policy), capacity)
    for row in rows(done):
        before = standing(cache, but=row[1])
        step = did(cache, row)
        if step.outcome in ("aborted", "miss-not-stored", "none"):
            assert standing(cache, but=row[1]) == before
            assert not step.evicted


@given(operations(), POLICIES, CAPACITIES, st.integers(-6, 12))
def test_scaling_the_cost_by_powers_of_two_changes_no_decision(
    done: Operations, policy: str, capacity: int, power: int
) -> None:
    """Powers of 4, so that square roots (β = 2) are as exact as the ratios."""
    same_decisions(done, policy, capacity, 4.0**power)


@given(operations(sizes=(1, 2, 4, 8)), POLICIES, CAPACITIES, st.integers(1, 1000))
def test_scaling_the_cost_by_any_number_changes_no_decision(
    done: Operations, policy: str, capacity: int, cost: int
) -> None:
    """Where sums are exact (sizes are powers of two, no roots): rounding can part equal values."""
    if "2)" not in policy and "0.5)" not in policy:
        same_decisions(done, policy, capacity, float(cost))


def same_decisions(done: Operations, policy: str, capacity: int, cost: float) -> None:
    chosen = parse_page_policy(policy)
    _, plain = run_live(done, chosen, capacity)
    _, scaled = run_live(done, chosen, capacity, cost=cost)
    assert list(plain.in_words()) == list(scaled.in_words())


@given(operations(), POLICIES, POLICIES, CAPACITIES, CAPACITIES)
def test_another_policy_keeps_what_fits_and_tells_what_does_not(
    done: Operations, before: str, after: str, capacity: int, other: int
) -> None:
    cache: PageCache[int] = PageCache(parse_page_policy(before), capacity)
    told = rows(done)
    for row in told[: len(told) // 2]:
        did(cache, row)
    there = {page for page in range(done.pages) if page in cache}
    evicted = cache.set_policy(parse_page_policy(after), other)
    assert {page for page, _ in evicted} | {p for p in there if p in cache} == there
    assert len(cache) == len(there) - len(evicted)
    assert cache.size_bytes <= other
    for row in told[len(told) // 2 :]:
        did(cache, row)
        assert cache.size_bytes <= other
        assert all(size <= limit for size, limit in cache.portions.values())


def test_the_same_policy_and_capacity_evict_nothing() -> None:
    cache: PageCache[str] = PageCache(parse_page_policy("sg1"), 4)
    cache.publish("a", 2, 3)
    cache.publish("b", 2, 1)
    assert cache.set_policy(parse_page_policy("hug")) == []
    assert cache.set_policy(parse_page_policy("hug"), 2) == [("b", "")]
    assert cache.set_policy(parse_page_policy("none")) == [("a", "")]
    assert cache.counters.evicted == 2


def test_a_removed_page_is_forgotten_and_its_bytes_are_free() -> None:
    cache: PageCache[str] = PageCache(parse_page_policy("sg1"), 4)
    cache.publish("a", 4, 9)
    assert cache.remove("a")
    assert not cache.remove("a")
    assert "a" not in cache
    assert cache.size_bytes == 0
    assert cache.request("b", 4, False).outcome == "miss-stored"
    assert cache.request("a", 4, False).outcome == "miss-not-stored"  # its 9 subscriptions are gone


def test_an_empty_page_takes_a_byte() -> None:
    cache: PageCache[str] = PageCache(parse_page_policy("gdstar"), 1)
    assert cache.request("empty", 0, False).outcome == "miss-stored"
    assert cache.size_bytes == 1


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(InvalidInput, match="-1 bytes"):
        PageCache(parse_page_policy("dc"), -1)
