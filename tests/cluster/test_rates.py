"""Token buckets: what they let through in the long run and at once, how long they say to wait, and
what they keep in mind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.rates import SECOND, SWEEP_EVERY, Rates, cost
from tocsin.model import QuotaName

PUBLICATIONS: QuotaName = "publications"
RATE = st.integers(1, 10_000)
Request = tuple[int, int]  # how long after the one before, how many
REQUESTS = st.lists(
    st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 20_000)), min_size=1, max_size=40
)


def take(rates: Rates, amount: int, per_second: int, now: int, subject: str = "ann") -> int:
    """How long it must wait; 0: it was let through."""
    refused = rates.take(subject, {PUBLICATIONS: cost(amount, per_second)}, now)
    return 0 if refused is None else refused.wait


@given(RATE, REQUESTS)
def test_never_more_is_let_through_than_rate_times_time_and_a_burst(
    rate: int, requests: list[Request]
) -> None:
    """Between any two requests that are let through, of somebody who tries at once and comes again
    when told to. One that is larger than a burst counts as a burst where it ends such a time: it is
    paid off behind it."""
    rates, now = Rates(), 0
    let_through: list[Request] = []
    for pause, amount in requests:
        now += max(0, pause - SECOND)
        now += take(rates, amount, rate, now)
        if not take(rates, amount, rate, now):
            let_through.append((now, amount))
    for first in range(len(let_through)):
        total = 0
        for at, amount in let_through[first:]:
            passed = at - let_through[first][0]
            assert (total + min(amount, rate)) * SECOND <= rate * (passed + SECOND)
            total += amount


@given(RATE, REQUESTS)
def test_whoever_stays_below_is_never_refused(rate: int, requests: list[Request]) -> None:
    rates, now = Rates(), 0
    for pause, amount in requests:
        assert not take(rates, amount, rate, now)
        now += cost(amount, rate) + pause


@given(RATE, REQUESTS)
def test_who_comes_again_when_told_is_let_through_and_not_a_moment_before(
    rate: int, requests: list[Request]
) -> None:
    rates, now = Rates(), 0
    for pause, amount in requests:
        now += pause
        wait = take(rates, amount, rate, now)
        if wait:
            assert take(rates, amount, rate, now + wait - 1)
            now += wait
            assert not take(rates, amount, rate, now)


def test_what_is_larger_than_a_bucket_passes_when_it_is_full_and_is_paid_off() -> None:
    rates = Rates()
    assert take(rates, 1, 10, 0) == 0
    assert take(rates, 500, 10, 0) == SECOND // 10
    assert take(rates, 500, 10, SECOND // 10) == 0
    assert take(rates, 1, 10, SECOND // 10) == 49 * SECOND + SECOND // 10
    assert take(rates, 10, 10, 50 * SECOND + SECOND // 10) == 0


def test_all_buckets_give_or_none_and_the_one_with_the_least_room_is_named() -> None:
    rates = Rates()
    wanted: dict[QuotaName, int] = {"publications": SECOND // 2, "bytes": SECOND}
    assert rates.take("ann", wanted, 0) is None
    refused = rates.take("ann", wanted, 0)
    assert refused is not None
    assert (refused.name, refused.wait) == ("bytes", SECOND)
    assert rates.take("ann", {"publications": SECOND // 2}, 0) is None
    assert rates.take("bob", wanted, 0) is None  # whose own they are


def test_idle_buckets_are_forgotten_and_debts_are_not() -> None:
    rates = Rates()
    for number in range(1000):
        take(rates, 1, 1, 0, f"subject-{number}")
    take(rates, 1000, 1, 0, "debtor")
    take(rates, 1, 1, SWEEP_EVERY)
    assert len(rates) == 2
    assert take(rates, 1, 1, SWEEP_EVERY, "debtor") == 1000 * SECOND - SWEEP_EVERY


def test_to_ask_takes_nothing() -> None:
    rates = Rates()
    for _ in range(3):
        assert rates.refused("ann", {PUBLICATIONS: SECOND}, 0) is None
    assert len(rates) == 0
