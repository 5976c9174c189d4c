"""Every policy in the result cache, a few objects each, worked by hand."""

from __future__ import annotations

import pytest

from caching.bench import at, cache_with, join, positions, result
from tocsin.policies import parse_policy
from tocsin.policies.result.estimates import REESTIMATE_EVERY_S
from tocsin.policies.result.eviction.return_rate import Absences, span_of
from tocsin.policies.result.expiry import LONGEST_TTL_S


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


def test_lru_counts_an_access_since_the_last_eviction() -> None:
    cache = cache_with("lru", 20, b1=1, b2=1)
    cache.put(result(1, 1), 1.0)
    cache.put(result(2, 1), 2.0)
    cache.get(1, 0, 1, 3.0)
    cache.put(result(2, 2), 4.0)  # accessed at 3 and at 2: the tail of 2 goes
    cache.get(2, 0, 2, 5.0)
    cache.get(1, 0, 1, 6.0)
    cache.put(result(2, 3), 7.0)  # accessed at 6 and at 5: again
    assert (positions(cache, 1), positions(cache, 2)) == ([1], [3])


def test_lsc_drops_the_tail_that_the_fewest_wait_for() -> None:
    cache = cache_with("lsc", 30, b1=3, b2=2)
    cache.put(result(1, 1), 1.0)
    cache.put(result(2, 1), 2.0)
    cache.put(result(1, 2), 3.0)  # full
    for _ in range(2):  # one of three still waits for object 1 of cache 1
        cache.advance(1, at(0), 1, 4.0)
    cache.put(result(2, 2), 5.0)  # f: 1 against 2
    assert positions(cache, 1) == [2]
    assert positions(cache, 2) == [1, 2]
    cache.put(result(2, 3), 6.0)  # f: tail of 1 is now awaited by 3, tail of 2 by 2
    assert positions(cache, 1) == [2]
    assert positions(cache, 2) == [2, 3]


def test_lsc_does_not_cache_an_object_that_is_the_least_awaited_itself() -> None:
    cache = cache_with("lsc", 20, b1=3, b2=1)
    cache.put(result(1, 1), 1.0)
    cache.put(result(1, 2), 2.0)
    assert not cache.put(result(2, 1), 3.0)
    assert positions(cache, 1) == [1, 2]
    assert positions(cache, 2) == []
    assert cache.tail(2) == 2
    assert cache.counters.bypassed == 1


def test_lscz_drops_the_tail_that_the_fewest_wait_for_per_byte() -> None:
    cache = cache_with("lscz", 40, b1=3, b2=1)
    cache.put(result(1, 1, 30), 1.0)  # f/s = 3/30 = 0.1
    cache.put(result(2, 1, 5), 2.0)  # f/s = 1/5 = 0.2
    cache.put(result(2, 2, 10), 3.0)  # 45 bytes: the tail of 1 goes, with all its subscribers
    assert (positions(cache, 1), positions(cache, 2)) == ([], [1, 2])


def test_lsd_keeps_what_takes_long_to_fetch() -> None:
    cache = cache_with("lsd", 40, b1=3, b2=1)
    cache.fetch_took(1, 2.0)
    cache.fetch_took(2, 0.25)
    cache.fetch_took(2, 0.75)  # on average 0.5 s
    cache.put(result(1, 1, 30), 1.0)  # f·l/s = 3 · 2 / 30 = 0.2
    cache.put(result(2, 1, 5), 2.0)  # f·l/s = 1 · 0.5 / 5 = 0.1
    cache.put(result(2, 2, 10), 3.0)  # 45 bytes: the tail of 2 goes
    assert (positions(cache, 1), positions(cache, 2)) == ([1], [2])


def test_exp_drops_what_expires_first_and_only_when_room_is_needed() -> None:
    # In a whole interval, 300 to 600 s: λ = 42 bytes / 300 s = 0.14/s for both, nothing consumed.
    # T1 = 3/4 · 112 / 0.14 = 600 s, T2 = 1/4 · 112 / 0.14 = 200 s.
    cache = cache_with("exp", 112, b1=3, b2=1)
    cache.expire(300.0)
    cache.put(result(1, 1, 42, created_at=310.0), 310.0)
    cache.put(result(2, 1, 42, created_at=320.0), 320.0)
    assert cache.candidate(2).ttl_s == LONGEST_TTL_S
    cache.put(result(1, 2, 42, created_at=600.0), 600.0)
    assert cache.candidate(1).ttl_s == pytest.approx(600.0)
    assert cache.candidate(2).ttl_s == pytest.approx(200.0)
    # 310 + 600 = 910 against 320 + 200 = 520: the younger one goes. It was over for 80 s.
    assert (positions(cache, 1), positions(cache, 2)) == ([1, 2], [])
    cache.expire(1000.0)
    assert positions(cache, 1) == [1, 2]  # over since 910, and nobody needs the room


def test_fifo_drops_what_came_first_whoever_reads_it() -> None:
    cache = cache_with("fifo", 20, b1=3, b2=1)
    cache.put(result(1, 1), 1.0)
    cache.put(result(2, 1), 2.0)
    cache.get(1, 0, 1, 3.0)
    cache.put(result(2, 2), 4.0)
    assert (positions(cache, 1), positions(cache, 2)) == ([], [1, 2])


def test_gdsf_lets_what_nobody_reads_fall_behind_the_last_victim() -> None:
    cache = cache_with("gdsf", 20, b1=3, b2=2)
    cache.fetch_took(1, 1.0)
    cache.fetch_took(2, 1.0)
    cache.put(result(1, 1), 1.0)  # 0 + 3 · 1 / 10 = 0.3
    cache.put(result(2, 1), 2.0)  # 0 + 2 · 1 / 10 = 0.2
    cache.put(result(2, 2), 3.0)  # the tail of 2 goes: L = 0.2
    assert (positions(cache, 1), positions(cache, 2)) == ([1], [2])
    cache.get(2, 1, 2, 4.0)  # accessed: 0.2 + 0.2 = 0.4
    cache.put(result(2, 3), 5.0)  # against 0.3: now the tail of 1 goes
    assert (positions(cache, 1), positions(cache, 2)) == ([], [2, 3])


def test_return_rate_keeps_what_somebody_connected_will_take_at_once() -> None:
    # 3 wait for object 1 and are away, 1 waits for object 2 and is connected. At 100 s it first
    # matters: λ = 0.1 bytes/s and 0.01 objects/s each, so an object can stay 20 / 0.2 = 100 s.
    # Nobody was seen coming back: 1/300 a second.
    # Cache 1: 1/300 · 3/10 = 0.001, and the same with what comes: (3 + 3 · 0.01 · 100) / (10 + 10)
    # Cache 2: 1/10 + 1/300 · (1 + 0) / (10 + 10) = 0.1002
    cache = cache_with("return-rate", 20, b1=0, b2=1)
    join(cache, 1, 3, 0.0, away=True)
    cache.put(result(1, 1), 10.0)
    cache.put(result(2, 1), 20.0)
    cache.put(result(2, 2), 100.0)
    assert (positions(cache, 1), positions(cache, 2)) == ([], [1, 2])


def test_return_rate_keeps_what_is_awaited_by_those_who_come_back_soonest() -> None:
    # One was seen away for 2 s, then for 200 s. So who has been away for 1 s comes back at
    # 1 / (2 + 2) = 0.25/s, who has been away for longer than 32 s at 1 / (200 − 32) = 0.006/s.
    cache = cache_with("return-rate", 20, b1=0, b2=0, b3=1)
    cache.went(3, at(0), 0.0)
    cache.came(3, at(0, 0.0), 2.0)
    cache.went(3, at(0), 2.0)
    cache.came(3, at(0, 2.0), 202.0)
    join(cache, 1, 2, 203.0, away=True)
    join(cache, 2, 1, 239.0, away=True)
    cache.put(result(1, 1), 239.0)
    cache.put(result(2, 1), 239.0)
    cache.put(result(2, 2), 240.0)  # away for 37 s: two; away for 1 s: one
    assert (positions(cache, 1), positions(cache, 2)) == ([], [1, 2])
    state = cache._evictions[("return-rate",)].state
    assert isinstance(state, Absences)
    assert state.rates[span_of(1.0)] == 0.25


def test_return_rate_judges_a_tail_by_the_cheapest_run_that_it_heads() -> None:
    # Nobody is connected, all came a moment ago, nothing is known of rates: the worth per byte
    # decides. Cache 1: 2/10 = 0.2 for the tail alone, (2 + 2) / (10 + 90) = 0.04 with the next.
    # Cache 2: 3/30 = 0.1.
    cache = cache_with("return-rate", 130, b1=0, b2=0, b3=0)
    join(cache, 1, 2, 0.0, away=True)
    join(cache, 2, 3, 0.0, away=True)
    join(cache, 3, 9, 0.0, away=True)
    cache.put(result(1, 1, 10), 0.0)
    cache.put(result(1, 2, 90), 0.0)
    cache.put(result(2, 1, 30), 0.0)
    cache.put(result(3, 1, 10), 0.0)
    assert (positions(cache, 1), positions(cache, 2), positions(cache, 3)) == ([2], [1], [1])


def test_ttl_follows_equation_7_after_the_first_whole_interval() -> None:
    # 300 to 600 s; cache 1 gets 600 bytes and consumes none: ρ = 2/s; n = 3 of 4; B = 800:
    # T = 0.75 · 800 / 2 = 300 s.
    cache = cache_with("ttl", 800, b1=3, b2=1)
    cache.expire(REESTIMATE_EVERY_S)
    cache.put(result(1, 1, 300), 310.0)
    cache.put(result(1, 2, 300), 590.0)
    assert cache.candidate(1).ttl_s == LONGEST_TTL_S
    cache.expire(2 * REESTIMATE_EVERY_S)
    assert cache.candidate(1).ttl_s == pytest.approx(300.0)
    assert cache.candidate(2).ttl_s == LONGEST_TTL_S  # ρ = 0: the guard
    cache.expire(609.9)
    assert positions(cache, 1) == [1, 2]
    cache.expire(610.0)
    assert positions(cache, 1) == [2]
    assert cache.counters.expired == 1


def test_ttl_counts_consumption_against_growth_but_not_expiry() -> None:
    cache = cache_with("ttl", 600, b1=1)
    cache.put(result(1, 1, 300), 10.0)
    cache.put(result(1, 2, 300), 20.0)
    cache.advance(1, at(0), 1, 30.0)  # λ = 2/s, η = 1/s, ρ = 1/s, T = 600 s
    cache.expire(300.0)
    assert cache.candidate(1).ttl_s == pytest.approx(600.0)


def test_ttl_alone_overshoots_and_the_overshoot_is_measured() -> None:
    cache = cache_with("ttl", 15, b1=1)
    cache.put(result(1, 1), 1.0)
    cache.put(result(1, 2), 2.0)  # 20 bytes from 2.0 on
    cache.advance(1, at(0), 2, 6.0)
    assert cache.counters.max_bytes == 20
    assert cache.counters.overshoot_byte_s == pytest.approx(5 * 4.0)
    assert cache.counters.byte_s == pytest.approx(10 * 1.0 + 20 * 4.0)


def test_none_caches_nothing_and_every_get_misses() -> None:
    cache = cache_with("none", 100, b1=2)
    assert not cache.put(result(1, 1), 1.0)
    assert cache.get(1, 0, 1, 2.0) == []
    assert cache.tail(1) == 2
    assert cache.size_bytes == 0


def test_all_caches_whatever_somebody_waits_for() -> None:
    cache = cache_with("admit=all evict=lsc", 100, b1=1, b2=0)
    assert cache.put(result(1, 1), 1.0)
    assert not cache.put(result(2, 1), 2.0)


def test_threshold_is_one_for_all_caches_and_a_refusal_drops_the_older_ones() -> None:
    cache = cache_with("admit=threshold(0.5,0.25) evict=lsc", 100, b1=2, b2=1)
    assert cache.put(result(1, 1), 1.0)  # 2 ≥ 0: the threshold rises to 1
    assert cache.put(result(2, 1), 2.0)  # 1 ≥ 1: to 1.5
    assert not cache.put(result(2, 2), 3.0)  # 1 < 1.5: falls to 1.25
    assert (positions(cache, 1), positions(cache, 2)) == ([1], [])
    assert (cache.counters.bypassed, cache.counters.dropped) == (1, 1)
    assert cache.put(result(1, 2), 4.0)  # 2 ≥ 1.25


def test_mean_and_buffer_remember_from_one_cache_to_the_next() -> None:
    cache = cache_with("admit=mean(2) evict=lsc", 100, b1=2, b2=1)
    cache.put(result(1, 1), 1.0)
    cache.put(result(2, 1), 2.0)  # the first batch: 1.5 on average
    assert not cache.put(result(2, 2), 3.0)
    assert cache.put(result(1, 2), 4.0)  # the second one, too
    cache.set_policy(parse_policy("admit=buffer(0.5,0.5) evict=lsc"), 5.0)
    assert cache.put(result(2, 3), 6.0)  # remembers nothing of the mean: 1 ≥ 0.5
    assert cache.put(result(1, 3), 7.0)  # 2 ≥ 1.5
    assert not cache.put(result(2, 4), 8.0)  # 1 < 1.5


def test_admission_is_not_asked_about_what_cannot_be_cached() -> None:
    cache = cache_with("admit=mean(1) evict=lsc", 20, b1=3, b2=1, b3=0)
    cache.put(result(2, 1), 1.0)  # the mean is 1
    cache.put(result(1, 1, 21), 2.0)  # larger than the budget: not counted
    cache.put(result(3, 1), 3.0)  # for nobody: not counted
    assert cache.put(result(2, 2), 4.0)
