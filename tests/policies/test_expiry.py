"""The TTL (BAD, equation 7) worked by hand."""

from __future__ import annotations

import pytest

from tocsin.policies import Candidate
from tocsin.policies.result.estimates import growth
from tocsin.policies.result.expiry import LONGEST_TTL_S, deadline
from tocsin.policies.result.expiry.ttl import ttl


def test_ttl_is_equation_7() -> None:
    # 20 of 100 subscribers, B = 50 MB, λ = 300 kB/s, η = 100 kB/s:
    # ρ = 200 kB/s, T = 0.2 · 50e6 / 200e3 = 50 s, and ρT = 10 MB is its share of B.
    rate = growth(300e3, 100e3)
    assert ttl(20 / 100, 50e6, rate) == pytest.approx(50.0)
    assert rate * ttl(20 / 100, 50e6, rate) == pytest.approx(10e6)


def test_ttl_of_a_cache_that_does_not_grow_is_the_longest_one() -> None:
    assert ttl(0.5, 1e6, 0.0) == LONGEST_TTL_S
    assert ttl(0.5, 1e6, 1e-9) == LONGEST_TTL_S
    assert ttl(0.0, 1e6, 10.0) == 0.0


def test_deadline_counts_from_caching_with_the_current_ttl() -> None:
    assert deadline(Candidate(tail_created_at=1.0, tail_cached_at=10.0, ttl_s=50.0)) == 60.0
