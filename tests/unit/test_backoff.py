"""Delays double up to a limit, differ between those who wait, and start small after a success."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tocsin.backoff import Backoff, delay_s


def test_delays_double_up_to_the_limit() -> None:
    assert [delay_s(failures, 0.1, 1.0) for failures in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_year_of_failures_is_no_overflow() -> None:
    assert delay_s(10_000_000, 0.1, 5.0) == 5.0


def test_jitter_takes_at_most_half_and_comes_from_the_given_source() -> None:
    backoff, same = Backoff(Random(7), 1.0, 8.0), Backoff(Random(7), 1.0, 8.0)
    delays = [backoff.next_s() for _ in range(50)]
    assert delays == [same.next_s() for _ in range(50)]
    steps = [delay_s(failures, 1.0, 8.0) for failures in range(50)]
    assert all(step / 2 <= delay <= step for delay, step in zip(delays, steps, strict=True))
    assert all(one != other for one, other in pairwise(delays))


def test_after_a_success_delays_are_small_again() -> None:
    backoff = Backoff(Random(1), 1.0, 100.0)
    for _ in range(10):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() <= 1.0
