"""Moving averages, and how soon those who are away come back, worked by hand."""

from __future__ import annotations

import pytest

from tocsin.policies.estimates import (
    BINS,
    REESTIMATE_EVERY_S,
    bin_ends,
    bin_of,
    growth,
    moving_average,
    observe,
    rate_returns,
)


def test_moving_average_moves_by_its_weight() -> None:
    assert moving_average(10.0, 20.0, 0.5) == 15.0
    assert moving_average(10.0, 20.0, 1.0) == 20.0


def test_growth_is_what_is_not_consumed_and_never_negative() -> None:
    assert growth(300.0, 100.0) == 200.0
    assert growth(100.0, 300.0) == 0.0


def test_bins_are_half_octaves_that_include_their_end() -> None:
    ends = bin_ends()
    assert len(ends) == BINS
    assert ends[:5] == pytest.approx([1, 2**0.5, 2, 2**1.5, 4])
    assert [bin_of(ends, away_s) for away_s in (0.0, 1.0, 1.1, 2.0, 4.0, 4.1)] == [0, 0, 1, 2, 4, 5]
    assert bin_of(ends, 1e12) == BINS - 1


def test_an_absence_is_exposed_in_every_bin_it_passed_and_returns_in_its_last() -> None:
    # 3 s away: a whole second in bin 0, √2 − 1 in bin 1, 2 − √2 in bin 2, √8 − 2 in bin 3 and the
    # rest, 3 − √8, in bin 4. The same by one who gave up counts as exposure alone.
    ends, returns, exposure_s = bin_ends(), [0.0] * BINS, [0.0] * BINS
    observe(ends, returns, exposure_s, 3.0, True)
    expected = [1, 2**0.5 - 1, 2 - 2**0.5, 8**0.5 - 2, 3 - 8**0.5]
    assert exposure_s[:6] == pytest.approx([*expected, 0])
    assert returns == [0, 0, 0, 0, 1] + [0] * (BINS - 5)
    observe(ends, returns, exposure_s, 3.0, False)
    assert exposure_s[:6] == pytest.approx([*(2 * one for one in expected), 0])
    assert sum(returns) == 1


def test_the_rate_of_returns_is_the_best_over_all_times_to_stop_waiting() -> None:
    # Two came back after 1 s, one after 4 s, one gave up after 4 s: bin 0 saw 2 returns in 4 s,
    # bins 1 to 4 one return (in bin 4) in 6 s, of which bin 4 alone 2 · (4 − √8) = 2.343 s.
    # At bin 0 it is best to stop at its end: 2/4; going on to 4 s would give 3/10.
    # At bin 1 to go on: 1/6; at bin 4: 1/2.343. Later nothing was seen: what was known last.
    ends, returns, exposure_s = bin_ends(), [0.0] * BINS, [0.0] * BINS
    for away_s, returned in ((1.0, True), (1.0, True), (4.0, True), (4.0, False)):
        observe(ends, returns, exposure_s, away_s, returned)
    rates = [0.0] * BINS
    rate_returns(returns, exposure_s, rates)
    last = 1 / (2 * (4 - 8**0.5))
    assert rates[:2] == pytest.approx([1 / 2, 1 / 6])
    assert rates[4:] == pytest.approx([last] * (BINS - 4))


def test_before_anything_was_seen_somebody_returns_once_in_an_interval() -> None:
    rates = [0.0] * BINS
    rate_returns([0.0] * BINS, [0.0] * BINS, rates)
    assert rates == [1 / REESTIMATE_EVERY_S] * BINS
