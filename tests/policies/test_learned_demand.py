"""What `learned-demand` learns, worked by hand."""

from __future__ import annotations

import math

import pytest

from tocsin.policies.page import learned_demand
from tocsin.policies.page.learned_demand import (
    AGES,
    BROWSED,
    ENDS,
    EVERY,
    NOTIFIED,
    REMEMBERED,
    WIDTHS,
    Knowledge,
    expected,
    group_of,
    looks,
    moves,
    surprises,
)

YOUNG, FEW = 0, 2  # an age, and the group of 2 and 3 subscriptions


def knowing(
    *, converts: float, browse: float, share: float, rate: float = 1.0, scatter: float = 0.0
) -> Knowledge:
    known = Knowledge()
    known.means[FEW] = converts, browse
    known.before[YOUNG], known.rate[YOUNG] = share, rate
    known.scatter = scatter
    return known


def look(known: Knowledge, now: int) -> None:
    """Do not wait for it."""
    known.clock = 10**9
    looks(known, now)


def test_groups_double() -> None:
    assert [group_of(s) for s in (0, 1, 2, 3, 4, 7, 8, 10**9)] == [0, 1, 2, 2, 3, 3, 4, 15]


def test_ages_follow_each_other_without_a_gap() -> None:
    assert len(ENDS) == AGES - 1
    assert sum(WIDTHS[:-1]) == ENDS[-1]
    assert all(width > 0 for width in WIDTHS)


def test_subscriptions_that_always_convert_are_trusted_to_the_last() -> None:
    """s − a_S, as HUG has it, whatever part of all requests should have come by now."""
    for share in (0.0, 0.5, 0.9):
        known = knowing(converts=1.0, browse=0.0, share=share)
        for notified in range(4):
            found = expected(known, YOUNG, FEW, 3, notified, 0) * math.sqrt(1 - share)
            assert found == pytest.approx(3 - notified)


def test_whoever_has_not_come_by_now_is_the_less_likely_to() -> None:
    """q = 1/2, and half of those that come have come: 1/2·1/2 of 3 will, of 1 − 1/2·1/2."""
    known = knowing(converts=0.5, browse=0.0, share=0.5)
    found = expected(known, YOUNG, FEW, 3, 0, 0)
    assert found == pytest.approx(3 * 0.25 / 0.75 * math.sqrt(1 / 0.5))
    assert expected(known, YOUNG, FEW, 3, 9, 0) == 0  # more than subscribed


def test_those_who_browsed_tell_the_more_the_more_pages_scatter() -> None:
    """3 subscriptions stand for 6 requests, half of which have come on average."""
    alike = knowing(converts=0.0, browse=2.0, share=0.5)
    assert expected(alike, YOUNG, FEW, 3, 0, 0) == expected(alike, YOUNG, FEW, 3, 0, 9)
    apart = knowing(converts=0.0, browse=2.0, share=0.5, scatter=1.0)
    # (1 + a)/(1 + 6/2) of 3, from Gamma and Poisson.
    for seen in (0, 3, 9):
        found = expected(apart, YOUNG, FEW, 3, 0, seen)
        assert found == pytest.approx(3 * (1 + seen) / 4 * math.sqrt(1 / 0.5))


def test_what_comes_sooner_is_worth_more() -> None:
    soon, late = (knowing(converts=1, browse=0, share=0, rate=rate) for rate in (0.09, 0.01))
    assert expected(soon, YOUNG, FEW, 3, 1, 0) == pytest.approx(3 * expected(late, 0, FEW, 3, 1, 0))


def test_time_is_counted_by_subscriptions_that_are_there() -> None:
    known = Knowledge()
    moves(known, YOUNG, FEW, 3, 10)
    moves(known, YOUNG, FEW, 2, 14)
    moves(known, YOUNG, FEW, -3, 20)
    assert known.time[YOUNG, FEW] == 3 * 4 + 5 * 6
    assert known.there[YOUNG, FEW] == 2


def lived(converts: float, browse: float, pages: int = 400) -> Knowledge:
    """Pages of 2 subscriptions, all of whose requests come evenly in their first four operations;
    they are watched until they are 4,000 operations old."""
    known = Knowledge()
    for age in range(AGES - 8):
        known.time[age, FEW] = 2.0 * pages * WIDTHS[age]
    known.asked[YOUNG, FEW] = 2 * pages * converts, 2 * pages * browse
    for _ in range(30):
        look(known, 0)
    return known


@pytest.mark.parametrize("converts", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("browse", [0.0, 1.5])
def test_what_a_subscription_stands_for_is_learnt(converts: float, browse: float) -> None:
    known = lived(converts, browse)
    assert known.means[FEW, NOTIFIED] == pytest.approx(converts, abs=0.03)
    assert known.means[FEW, BROWSED] == pytest.approx(browse, abs=0.05)
    assert known.means[FEW + 5, NOTIFIED] == pytest.approx(converts, abs=0.1)  # from the others


def test_when_requests_come_is_learnt() -> None:
    known = lived(0.5, 0.5)
    assert known.rate[YOUNG] * WIDTHS[YOUNG] == pytest.approx(1, abs=0.1)
    assert known.before[YOUNG + 4] > 0.9
    assert known.rate[YOUNG] > 100 * known.rate[YOUNG + 4]
    assert sum(rate * width for rate, width in zip(known.rate, WIDTHS, strict=True)) == (
        pytest.approx(1)
    )
    assert all(0 <= share < 1 for share in known.before)


def test_nobody_is_told_twice() -> None:
    assert lived(3.0, 0.0).means[FEW, NOTIFIED] == 1


def test_scatter_is_learnt_from_what_was_not_expected() -> None:
    """All pages should have 4 requests by now. Half have none, half have 8: variance 16 where
    chance makes 4; the 12 besides are 3/4 of the mean's square."""
    for seen, scatter in (((0, 8), 0.75), ((4, 4), 0.0)):
        known = Knowledge()
        known.means[FEW, BROWSED], known.before[YOUNG + 1] = 2.0, 0.5
        for _ in range(200):
            for browsed in seen:
                surprises(known, YOUNG, FEW, 4, browsed)
        look(known, 0)
        assert known.scatter == pytest.approx(scatter, abs=0.01)


def test_it_looks_now_and_then_and_forgets_by_halves() -> None:
    known = Knowledge()
    for now in range(1, EVERY):
        looks(known, now)
    assert known.rate[YOUNG] == 1  # not yet
    looks(known, EVERY)
    looks(known, EVERY + 1)
    assert known.rate[YOUNG] < 1
    known.asked[YOUNG, FEW, NOTIFIED] = REMEMBERED + 2
    known.time[YOUNG, FEW] = 8.0
    look(known, EVERY)
    assert known.asked[YOUNG, FEW, NOTIFIED] == REMEMBERED / 2 + 1
    assert known.time[YOUNG, FEW] == 4


def test_the_policy_says_what_it_keeps() -> None:
    policy = learned_demand.learned_demand("learned-demand")
    assert policy.state is Knowledge
    assert policy.ages == ENDS
    assert policy.pushes
    assert not policy.first.ages
