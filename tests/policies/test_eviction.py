"""Each eviction policy worked by hand: the smallest score is the victim."""

from __future__ import annotations

import pytest

from tocsin.policies import Candidate
from tocsin.policies.result.eviction import tie
from tocsin.policies.result.eviction.exp import exp
from tocsin.policies.result.eviction.fifo import fifo
from tocsin.policies.result.eviction.gdsf import gdsf
from tocsin.policies.result.eviction.lru import lru
from tocsin.policies.result.eviction.lsc import lsc
from tocsin.policies.result.eviction.lscz import lscz
from tocsin.policies.result.eviction.lsd import lsd


def test_lru_prefers_the_least_recently_accessed_cache() -> None:
    # Accessed at 5 and at 9: the one of 5 goes, whatever its subscribers.
    old = Candidate(backend=1, last_access_at=5.0, waiting=100)
    new = Candidate(backend=2, last_access_at=9.0, waiting=1)
    assert min(old, new, key=lru) is old


def test_lsc_prefers_the_fewest_waiting_subscribers_not_the_ratio_to_size() -> None:
    # f = 3, s = 10 against f = 2, s = 1: min f takes the second, f/s would take the first.
    large = Candidate(backend=1, waiting=3, tail_size_bytes=10)
    small = Candidate(backend=2, waiting=2, tail_size_bytes=1)
    assert min(large, small, key=lsc) is small


def test_lscz_prefers_the_fewest_waiting_subscribers_per_byte() -> None:
    # f/s = 3/10 = 0.3 against 2/1 = 2.
    large = Candidate(backend=1, waiting=3, tail_size_bytes=10)
    small = Candidate(backend=2, waiting=2, tail_size_bytes=1)
    assert (lscz(large), lscz(small)) == (0.3, 2.0)


def test_lsd_weighs_them_by_what_a_fetch_takes() -> None:
    # f·l/s = 3 · 8 / 10 = 2.4 against 2 · 0.5 / 1 = 1: the slow one to fetch stays.
    far = Candidate(backend=1, waiting=3, tail_size_bytes=10, fetch_delay_s=8.0)
    near = Candidate(backend=2, waiting=2, tail_size_bytes=1, fetch_delay_s=0.5)
    assert (lsd(far), lsd(near)) == (2.4, 1.0)


def test_exp_prefers_the_earliest_end_counted_from_creation() -> None:
    # Made at 0 for 100 s, made at 60 for 20 s: the younger one ends first.
    lasting = Candidate(backend=1, tail_created_at=0.0, tail_cached_at=1.0, ttl_s=100.0)
    fleeting = Candidate(backend=2, tail_created_at=60.0, tail_cached_at=99.0, ttl_s=20.0)
    assert (exp(lasting), exp(fleeting)) == (100.0, 80.0)


def test_fifo_prefers_what_was_cached_first() -> None:
    # Cached at 3 and at 4, though made and accessed the other way round.
    first = Candidate(backend=1, tail_cached_at=3.0, tail_created_at=2.0, last_access_at=9.0)
    second = Candidate(backend=2, tail_cached_at=4.0, tail_created_at=1.0, last_access_at=4.0)
    assert min(first, second, key=fifo) is first


def test_gdsf_lets_what_is_not_accessed_fall_behind() -> None:
    # f·l/s = 3 · 0.5 / 10 = 0.15 against 1 · 0.5 / 10 = 0.05; but the second was accessed after a
    # victim of score 0.125 had left: 0.175.
    forgotten = Candidate(waiting=3, tail_size_bytes=10, fetch_delay_s=0.5)
    lively = Candidate(waiting=1, tail_size_bytes=10, fetch_delay_s=0.5, inflation=0.125)
    assert gdsf(forgotten) == pytest.approx(0.15)
    assert gdsf(lively) == pytest.approx(0.175)


def test_equal_scores_drop_the_tail_cached_first_then_the_smaller_backend() -> None:
    late = Candidate(backend=1, waiting=2, tail_cached_at=8.0)
    early = Candidate(backend=9, waiting=2, tail_cached_at=7.0)
    same = Candidate(backend=3, waiting=2, tail_cached_at=7.0)
    assert sorted((late, early, same), key=tie) == [same, early, late]
