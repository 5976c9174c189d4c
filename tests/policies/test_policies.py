"""Each policy worked by hand, and the loud registry."""

from __future__ import annotations

import pytest

from tocsin.errors import SettingError
from tocsin.policies import Candidate, parse_policy, policy_names
from tocsin.policies.admission import everything, nothing
from tocsin.policies.eviction import EVICTION, lru, lsc, tie
from tocsin.policies.expiry import LONGEST_TTL_S, deadline, growth, moving_average, ttl
from tocsin.policies.registry import Registry


def test_lru_prefers_the_least_recently_accessed_cache() -> None:
    # Accessed at 5 and at 9: the one of 5 goes, whatever its subscribers.
    old = Candidate(backend=1, last_access_at=5.0, waiting=100)
    new = Candidate(backend=2, last_access_at=9.0, waiting=1)
    assert min(old, new, key=lru) is old


def test_lsc_prefers_the_fewest_waiting_subscribers_not_the_ratio_to_size() -> None:
    # f = 3, s = 10 against f = 2, s = 1: min f takes the second; f/s (LSCz) would take the first.
    large = Candidate(backend=1, waiting=3, tail_size_bytes=10)
    small = Candidate(backend=2, waiting=2, tail_size_bytes=1)
    assert min(large, small, key=lsc) is small


def test_equal_scores_drop_the_tail_cached_first_then_the_smaller_backend() -> None:
    late = Candidate(backend=1, waiting=2, tail_cached_at=8.0)
    early = Candidate(backend=9, waiting=2, tail_cached_at=7.0)
    same = Candidate(backend=3, waiting=2, tail_cached_at=7.0)
    assert sorted((late, early, same), key=tie) == [same, early, late]


def test_ttl_is_equation_7() -> None:
    # 20 of 100 subscribers, B = 50 MB, λ = 300 kB/s, η = 100 kB/s:
    # ρ = 200 kB/s, T = 0.2 · 50e6 / 200e3 = 50 s, and ρT = 10 MB is its share of B.
    rate = growth(300e3, 100e3)
    assert ttl(20 / 100, 50e6, rate) == pytest.approx(50.0)
    assert rate * ttl(20 / 100, 50e6, rate) == pytest.approx(10e6)


def test_ttl_of_a_cache_that_does_not_grow_is_the_longest_one() -> None:
    assert growth(100.0, 300.0) == 0.0
    assert ttl(0.5, 1e6, 0.0) == LONGEST_TTL_S
    assert ttl(0.5, 1e6, 1e-9) == LONGEST_TTL_S
    assert ttl(0.0, 1e6, 10.0) == 0.0


def test_deadline_counts_from_caching_with_the_current_ttl() -> None:
    assert deadline(Candidate(tail_created_at=1.0, tail_cached_at=10.0, ttl_s=50.0)) == 60.0


def test_moving_average_moves_by_its_weight() -> None:
    assert moving_average(10.0, 20.0, 0.5) == 15.0
    assert moving_average(10.0, 20.0, 1.0) == 20.0


def test_admission_none_refuses_and_all_wants_at_least_one_subscriber() -> None:
    assert everything(1)
    assert not everything(0)
    assert not nothing(1000)


def test_short_names_choose_their_family() -> None:
    assert policy_names() == ["lru", "lsc", "none", "ttl"]
    assert parse_policy("lsc").evict is lsc
    assert parse_policy("lsc").expire is None
    assert parse_policy("ttl").expire is ttl
    assert parse_policy("ttl").evict is None
    assert parse_policy("none").caches is False


def test_families_combine_by_name() -> None:
    policy = parse_policy("admit=all evict=lru expire=ttl")
    assert (policy.admit, policy.evict, policy.expire) == (everything, lru, ttl)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "lru, lsc, none, ttl"),
        ("lfu", "lru, lsc, none, ttl"),
        ("evict=lfu", "lru, lsc"),
        ("drop=lru", "admit, evict, expire"),
        ("lru lsc", "once"),
        ("admit=all", "evict=…"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_and_the_choices_are_listed(
    text: str, told: str
) -> None:
    with pytest.raises(SettingError) as raised:
        parse_policy(text)
    assert told in str(raised.value)
    assert raised.value.field == "cache_policy"


def test_a_name_registered_twice_raises_and_lists_what_exists() -> None:
    registry: Registry[int] = Registry("test")
    registry.register("a")(1)
    with pytest.raises(ValueError, match=r"registered twice.*registered: a"):
        registry.register("a")(2)
    assert "lru" in EVICTION
