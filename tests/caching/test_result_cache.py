"""The result cache, whatever its policy: who waits, what is measured, what leaves."""

from __future__ import annotations

import pytest

from caching.bench import at, cache_with, positions, result
from tocsin.caching import ResultCache
from tocsin.policies import parse_policy
from tocsin.policies.result.estimates import REESTIMATE_EVERY_S
from tocsin.policies.result.eviction.return_rate import Absences, span_of
from tocsin.policies.result.expiry import LONGEST_TTL_S


def test_a_score_that_changed_since_the_last_eviction_counts() -> None:
    cache = cache_with("lsc", 20, b1=2, b2=3)
    cache.put(result(1, 1), 1.0)
    cache.put(result(2, 1), 2.0)
    cache.put(result(2, 2), 3.0)  # f: 2 against 3, cache 1 loses its tail
    assert positions(cache, 1) == []
    cache.put(result(1, 2), 4.0)  # f = 2 is the smallest itself
    for _ in range(2):  # now one waits for the tail of cache 2
        cache.advance(2, at(0), 1, 5.0)
    cache.put(result(1, 3), 6.0)
    assert (positions(cache, 1), positions(cache, 2)) == ([3], [2])


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
    cache.attach(1, at(2), 2.0)  # has taken 2 elsewhere already
    assert not cache.put(result(1, 2), 3.0)
    assert cache.put(result(1, 3), 4.0)


def test_objects_leave_when_the_last_waiting_subscriber_took_them_or_left() -> None:
    cache = cache_with("lsc", 100, b1=2)
    for position in (1, 2, 3):
        cache.put(result(1, position), float(position))
    cache.advance(1, at(0), 2, 4.0)
    assert positions(cache, 1) == [1, 2, 3]
    cache.advance(1, at(0), 1, 5.0)
    assert positions(cache, 1) == [2, 3]
    cache.detach(1, at(1), 6.0)
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
    cache.put(result(1, 1), 1.0)
    with pytest.raises(ValueError, match="position 2 comes next, not 1"):
        cache.put(result(1, 1), 1.0)


def test_switching_the_policy_keeps_what_fits_and_drops_what_does_not() -> None:
    cache = cache_with("ttl", 20, b1=1, b2=2)
    for position in (1, 2, 3):
        cache.put(result(1, position), 0.0)  # too early to estimate anything: it overshoots
    cache.put(result(2, 1), 0.0)
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
    cache.advance(1, at(0), 1, 2.0)
    cache.reset(1, 0, 3.0)
    assert positions(cache, 1) == []
    cache.put(result(1, 1), 4.0)
    assert cache.candidate(1).waiting == 2


def test_those_who_wait_are_counted_with_those_of_them_who_are_connected() -> None:
    cache = cache_with("return-rate", 100, b1=3)
    cache.put(result(1, 1), 1.0)
    cache.put(result(1, 2), 2.0)
    cache.went(1, at(0), 3.0)
    cache.advance(1, at(0), 1, 4.0)  # one who is connected took the first
    assert presence(cache) == (3, 2, 2, 1)
    cache.came(1, at(0, 3.0), 5.0)
    assert presence(cache) == (3, 3, 2, 2)
    cache.went(1, at(1), 6.0)  # whoever took the first does not wait for it
    assert presence(cache) == (3, 2, 2, 2)
    for _ in range(2):  # the first leaves: all three wait for the second
        cache.advance(1, at(0), 1, 7.0)
    assert presence(cache) == (3, 2, 3, 2)
    cache.detach(1, at(1, 6.0), 8.0)
    assert presence(cache) == (2, 2, 2, 2)


def presence(cache: ResultCache) -> tuple[int, int, int, int]:
    candidate = cache.candidate(1)
    return candidate.attached, candidate.online, candidate.waiting, candidate.present


def test_whoever_is_attached_to_connect_at_once_was_not_away() -> None:
    cache = cache_with("return-rate", 10, b1=0)
    cache.attach(1, at(0, 5.0), 5.0)
    cache.came(1, at(0, 5.0), 5.0)
    cache.went(1, at(0), 5.0)
    cache.came(1, at(0, 5.0), 9.0)  # one absence, of 4 s
    cache.put(result(1, 1), 10.0)
    cache.put(result(1, 2), 11.0)
    state = cache._evictions[("return-rate",)].state
    assert isinstance(state, Absences)
    assert state.rates[span_of(0.0)] == 1 / 4


def test_the_first_estimate_is_made_when_something_does_not_fit() -> None:
    # By 50 s: 20 bytes in 50 s for cache 1, nothing for cache 2.
    cache = cache_with("lsc", 20, b1=1, b2=1)
    cache.put(result(1, 1), 10.0)
    cache.put(result(1, 2), 20.0)
    assert (cache.counters.estimates, cache.candidate(1).arrival_bytes_per_s) == (0, 0.0)
    cache.put(result(1, 3), 50.0)
    assert cache.counters.estimates == 1
    candidate = cache.candidate(1)
    assert (candidate.arrival_bytes_per_s, candidate.arrivals_per_s) == (0.4, 0.04)
    assert candidate.hold_s == 20 / 0.4
    cache.put(result(1, 4), 60.0)  # does not fit either, but now every five minutes is enough
    assert cache.counters.estimates == 1
    cache.expire(50.0 + REESTIMATE_EVERY_S)
    assert cache.counters.estimates == 2
    # The first estimate was of a part of an interval: what a whole one tells replaces it.
    assert cache.candidate(1).arrivals_per_s == pytest.approx(2 / REESTIMATE_EVERY_S)
    cache.expire(50.0 + 2 * REESTIMATE_EVERY_S)
    assert cache.candidate(1).arrivals_per_s == pytest.approx(1 / REESTIMATE_EVERY_S)


def test_until_a_cache_was_measured_for_a_whole_interval_it_has_the_usual_time_to_live() -> None:
    # 2 caches grow by 1 byte/s each, so all by 2: an object can stay 600 / 2 = 300 s in all.
    # Cache 3 was opened as well, and nothing tells yet that it does not grow.
    cache = cache_with("ttl", 600, b1=1, b2=1)
    cache.put(result(1, 1, 300), 1.0)
    cache.put(result(2, 1, 300), 2.0)
    cache.open(3, 0)
    assert cache.candidate(3).ttl_s == LONGEST_TTL_S
    cache.expire(300.0)
    cache.open(4, 0)
    assert cache.candidate(4).ttl_s == cache.candidate(4).hold_s == 300.0
    assert [cache.candidate(one).ttl_s for one in (1, 2, 3)] == [300.0, 300.0, 300.0]
    # In the next one cache 1 alone gets something, 2 bytes/s: T = 1/2 · 600 / 2 = 150 s.
    cache.put(result(1, 2, 600), 301.0)
    cache.expire(600.0)
    told = [cache.candidate(one).ttl_s for one in (1, 2, 3, 4)]
    assert told == [150.0, LONGEST_TTL_S, LONGEST_TTL_S, 300.0]


def test_estimates_are_counted_for_whoever_asks_how_well_they_hold() -> None:
    cache = cache_with("ttl", 600, b1=1, b2=1)
    cache.put(result(1, 1, 300), 1.0)
    cache.put(result(2, 1, 600), 2.0)  # does not fit: Σρ = 300/2 = 150, T = 600/150 = 4 s for all
    counters = cache.counters
    assert counters.estimates == 1
    assert counters.planned_bytes == 600.0  # Σρ_i·T_i: the budget


def test_a_time_to_live_counts_for_each_object_that_was_given_it() -> None:
    cache = cache_with("ttl", 600, b1=1, b2=1, b3=1)
    cache.put(result(1, 1, 300), 1.0)  # before the first estimate: none
    counters = cache.counters
    assert (counters.ttls, counters.ttl_s) == (0, 0.0)
    cache.put(result(1, 2, 600), 2.0)  # does not fit: Σρ = 300/2 = 150, T = 600/150 = 4 s for all
    cache.put(result(2, 1, 1), 3.0)
    assert (counters.ttls, counters.ttl_s) == (2, 8.0)
    cache.expire(2.0 + REESTIMATE_EVERY_S)
    cache.put(result(3, 1, 1), 303.0)  # it had not grown at all: the guard, which is no estimate
    assert (counters.ttls, counters.ttl_s) == (2, 8.0)


def test_a_second_cache_for_a_backend_subscription_is_refused() -> None:
    cache = cache_with("lsc", 20, b1=1)
    with pytest.raises(ValueError, match="backend subscription 1 has a result cache already"):
        cache.open(1, 0)


def test_results_that_are_elsewhere_take_the_older_ones_with_them() -> None:
    cache = cache_with("lsc", 100, b1=2)
    cache.put(result(1, 1), 1.0)
    cache.skip(1, 5, 2.0)
    assert (positions(cache, 1), cache.tail(1)) == ([], 6)
    assert cache.put(result(1, 6), 3.0)
    assert cache.counters.dropped == 1
