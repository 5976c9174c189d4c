"""The result cache: behaviour worked by hand for every policy."""

from __future__ import annotations

import pytest

from tocsin.caching import ResultCache
from tocsin.model import Result
from tocsin.policies import parse_policy
from tocsin.policies.expiry import LONGEST_TTL_S, REESTIMATE_EVERY_S


def result(backend: int, position: int, size_bytes: int = 10) -> Result:
    return Result(backend, position, float(position), b"x" * size_bytes)


def cache_with(policy: str, budget_bytes: int, **subscribers: int) -> ResultCache:
    """Backends 1, 2, … with so many subscribers each: `b1=2, b2=1`."""
    cache = ResultCache(parse_policy(policy), budget_bytes)
    for name, count in subscribers.items():
        backend = int(name[1:])
        cache.open(backend, 0)
        cache.attach(backend, 0, 0.0, count)
    return cache


def positions(cache: ResultCache, backend: int) -> list[int]:
    return [r.position for r in cache.contents(backend)]


def test_lru_drops_from_the_cache_that_was_accessed_longest_ago() -> None:
    cache = cache_with("lru", 40, b1=1, b2=1)
    cache.put(result(1, 1), 1.0)  # cache 1 accessed at 1
    cache.put(result(2, 1), 2.0)  # cache 2 accessed at 2
    cache.put(result(1, 2), 3.0)  # a put to a non-empty cache is no access
    cache.get(1, 0, 2, 4.0)  # cache 1 accessed at 4
    cache.put(result(2, 2), 5.0)  # full: 40 bytes
    cache.put(result(1, 3), 6.0)  # 2 is the least recently accessed: its tail goes
    assert positions(cache, 1) == [1, 2, 3]
    assert positions(cache, 2) == [2]


def test_lsc_drops_the_tail_that_the_fewest_wait_for() -> None:
    cache = cache_with("lsc", 30, b1=3, b2=2)
    cache.put(result(1, 1), 1.0)
    cache.put(result(2, 1), 2.0)
    cache.put(result(1, 2), 3.0)  # full
    cache.advance(1, 0, 1, 4.0, subscribers=2)  # one of three still waits for object 1 of cache 1
    cache.put(result(2, 2), 5.0)  # f: 1 against 2
    assert positions(cache, 1) == [2]
    assert positions(cache, 2) == [1, 2]
    cache.put(result(2, 3), 6.0)  # f: tail of 1 is now awaited by 3, tail of 2 by 2
    assert positions(cache, 1) == [2]
    assert positions(cache, 2) == [2, 3]


def test_a_score_that_changed_since_the_last_eviction_counts() -> None:
    cache = cache_with("lsc", 20, b1=2, b2=3)
    cache.put(result(1, 1), 1.0)
    cache.put(result(2, 1), 2.0)
    cache.put(result(2, 2), 3.0)  # f: 2 against 3, cache 1 loses its tail
    assert positions(cache, 1) == []
    cache.put(result(1, 2), 4.0)  # f = 2 is the smallest itself
    cache.advance(2, 0, 1, 5.0, subscribers=2)  # now one waits for the tail of cache 2
    cache.put(result(1, 3), 6.0)
    assert (positions(cache, 1), positions(cache, 2)) == ([3], [2])


def test_lsc_does_not_cache_an_object_that_is_the_least_awaited_itself() -> None:
    cache = cache_with("lsc", 20, b1=3, b2=1)
    cache.put(result(1, 1), 1.0)
    cache.put(result(1, 2), 2.0)
    assert not cache.put(result(2, 1), 3.0)
    assert positions(cache, 1) == [1, 2]
    assert positions(cache, 2) == []
    assert cache.tail(2) == 2
    assert cache.counters.bypassed == 1


def test_ttl_follows_equation_7_after_the_first_interval() -> None:
    # 300 s; cache 1 gets 600 bytes and consumes none: ρ = 2/s; n = 3 of 4; B = 800:
    # T = 0.75 · 800 / 2 = 300 s.
    cache = cache_with("ttl", 800, b1=3, b2=1)
    cache.put(result(1, 1, 300), 10.0)
    cache.put(result(1, 2, 300), 290.0)
    assert cache.candidate(1).ttl_s == LONGEST_TTL_S
    cache.expire(REESTIMATE_EVERY_S)
    assert cache.candidate(1).ttl_s == pytest.approx(300.0)
    assert cache.candidate(2).ttl_s == LONGEST_TTL_S  # ρ = 0: the guard
    cache.expire(309.9)
    assert positions(cache, 1) == [1, 2]
    cache.expire(310.0)
    assert positions(cache, 1) == [2]
    assert cache.counters.expired == 1


def test_ttl_counts_consumption_against_growth_but_not_expiry() -> None:
    cache = cache_with("ttl", 600, b1=1)
    cache.put(result(1, 1, 300), 10.0)
    cache.put(result(1, 2, 300), 20.0)
    cache.advance(1, 0, 1, 30.0)  # λ = 2/s, η = 1/s, ρ = 1/s, T = 600 s
    cache.expire(300.0)
    assert cache.candidate(1).ttl_s == pytest.approx(600.0)


def test_ttl_alone_overshoots_and_the_overshoot_is_measured() -> None:
    cache = cache_with("ttl", 15, b1=1)
    cache.put(result(1, 1), 1.0)
    cache.put(result(1, 2), 2.0)  # 20 bytes from 2.0 on
    cache.advance(1, 0, 2, 6.0)
    assert cache.counters.max_bytes == 20
    assert cache.counters.overshoot_byte_s == pytest.approx(5 * 4.0)
    assert cache.counters.byte_s == pytest.approx(10 * 1.0 + 20 * 4.0)


def test_none_caches_nothing_and_every_get_misses() -> None:
    cache = cache_with("none", 100, b1=2)
    assert not cache.put(result(1, 1), 1.0)
    assert cache.get(1, 0, 1, 2.0) == []
    assert cache.tail(1) == 2
    assert cache.size_bytes == 0


def test_an_object_larger_than_the_budget_takes_the_older_ones_with_it() -> None:
    cache = cache_with("lsc", 20, b1=1)
    cache.put(result(1, 1), 1.0)
    assert not cache.put(result(1, 2, 21), 2.0)
    assert positions(cache, 1) == []
    assert cache.tail(1) == 3
    assert cache.put(result(1, 3), 3.0)
    assert positions(cache, 1) == [3]


def test_an_object_nobody_waits_for_is_not_cached() -> None:
    cache = cache_with("lsc", 100, b1=0)
    assert not cache.put(result(1, 1), 1.0)
    cache.attach(1, 2, 2.0)  # has taken 2 elsewhere already
    assert not cache.put(result(1, 2), 3.0)
    assert cache.put(result(1, 3), 4.0)


def test_objects_leave_when_the_last_waiting_subscriber_took_them_or_left() -> None:
    cache = cache_with("lsc", 100, b1=2)
    for position in (1, 2, 3):
        cache.put(result(1, position), float(position))
    cache.advance(1, 0, 2, 4.0)
    assert positions(cache, 1) == [1, 2, 3]
    cache.advance(1, 0, 1, 5.0)
    assert positions(cache, 1) == [2, 3]
    cache.detach(1, 1, 6.0)
    assert positions(cache, 1) == [3]
    assert cache.counters.consumed == 2


def test_a_get_is_the_cached_suffix_from_the_split_point() -> None:
    cache = cache_with("lsc", 20, b1=1)
    for position in (1, 2, 3):
        cache.put(result(1, position), float(position))
    assert cache.tail(1) == 2
    assert [r.position for r in cache.get(1, 0, 3, 4.0)] == [2, 3]
    assert [r.position for r in cache.get(1, 2, 3, 5.0)] == [3]
    assert [r.position for r in cache.get(1, 0, 2, 6.0)] == [2]
    assert cache.get(1, 3, 3, 7.0) == []
    assert cache.get(1, 0, 1, 8.0) == []
    assert (cache.counters.hits, cache.counters.hit_bytes) == (4, 40)


def test_a_position_out_of_order_is_refused() -> None:
    cache = cache_with("lsc", 20, b1=1)
    with pytest.raises(ValueError, match="position 1 comes next, not 2"):
        cache.put(result(1, 2), 1.0)


def test_switching_the_policy_keeps_what_fits_and_drops_what_does_not() -> None:
    cache = cache_with("ttl", 20, b1=1, b2=2)
    for position in (1, 2, 3):
        cache.put(result(1, position), float(position))
    cache.put(result(2, 1), 4.0)
    assert cache.size_bytes == 40
    cache.set_policy(parse_policy("lsc"), 5.0)
    assert cache.size_bytes == 20
    assert (positions(cache, 1), positions(cache, 2)) == ([3], [1])
    cache.set_policy(parse_policy("none"), 6.0)
    assert cache.size_bytes == 0
    cache.set_policy(parse_policy("lru"), 7.0)
    assert cache.put(result(1, 4), 8.0)


def test_a_new_epoch_starts_empty_with_everyone_before_its_beginning() -> None:
    cache = cache_with("lsc", 100, b1=2)
    cache.put(result(1, 1), 1.0)
    cache.advance(1, 0, 1, 2.0)
    cache.reset(1, 0, 3.0)
    assert positions(cache, 1) == []
    cache.put(result(1, 1), 4.0)
    assert cache.candidate(1).waiting == 2
