"""What `return-rate` learns and decides, worked by hand; and how soon subscribers come back equals
what a count over all absences gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.policies import Candidate
from tocsin.policies.result.estimates import REESTIMATE_EVERY_S
from tocsin.policies.result.eviction.return_rate import (
    ENDS,
    LOOK_AHEAD,
    SPANS,
    Absences,
    absence,
    look,
    reestimate,
    return_rate,
    span_of,
)

ABSENCE = st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 30.0, 31.0, 4000.0]), st.booleans())


@settings(max_examples=50, deadline=None)
@given(st.lists(ABSENCE, max_size=30))
def test_rates_are_those_of_the_best_time_to_stop_waiting(seen: list[tuple[float, bool]]) -> None:
    state = Absences()
    for away_s, returned in seen:
        absence(state, away_s, returned)
    reestimate(state)
    expected = 1 / REESTIMATE_EVERY_S
    for begin, end in zip([-1.0, *ENDS], ENDS, strict=False):
        best = 0.0  # if nobody came, at most one return in the time waited is thought possible
        for stop in ENDS:
            if stop < end:
                continue
            came = [a for a, returned in seen if returned and begin < a <= stop]
            waited_s = sum(max(0.0, min(a, stop) - max(begin, 0.0)) for a, _ in seen)
            best = max(best, len(came) / waited_s if waited_s else 0.0)
        waited_s = sum(max(0.0, a - max(begin, 0.0)) for a, _ in seen)
        in_vain = min(expected, 1 / waited_s) if waited_s else expected
        expected = best or in_vain
        inside_s = min(end, max(begin, 0.0) + 0.01)
        assert state.rates[span_of(inside_s)] == pytest.approx(expected)


def test_what_was_seen_counts_when_it_is_learned() -> None:
    state = Absences()
    absence(state, 0.5, True)
    assert state.rates[span_of(0.0)] == 1 / REESTIMATE_EVERY_S
    reestimate(state)
    assert state.rates[span_of(0.0)] == 2.0
    assert state.rates[span_of(1e12)] == 2.0


def test_spans_are_half_octaves_that_include_their_end() -> None:
    assert len(ENDS) == SPANS
    assert ENDS[:5] == pytest.approx([1, 2**0.5, 2, 2**1.5, 4])
    assert [span_of(away_s) for away_s in (0.0, 1.0, 1.1, 2.0, 4.0, 4.1)] == [0, 0, 1, 2, 4, 5]
    assert span_of(1e12) == SPANS - 1


def test_an_absence_is_exposed_in_every_span_it_passed_and_returns_in_its_last() -> None:
    # 3 s away: a whole second in span 0, √2 − 1 in span 1, 2 − √2 in span 2, √8 − 2 in span 3 and
    # the rest, 3 − √8, in span 4. The same by one who gave up counts as exposure alone.
    state = Absences()
    absence(state, 3.0, True)
    expected = [1, 2**0.5 - 1, 2 - 2**0.5, 8**0.5 - 2, 3 - 8**0.5]
    assert state.exposure_s[:6] == pytest.approx([*expected, 0])
    assert state.returns == [0, 0, 0, 0, 1] + [0] * (SPANS - 5)
    absence(state, 3.0, False)
    assert state.exposure_s[:6] == pytest.approx([*(2 * span_s for span_s in expected), 0])
    assert sum(state.returns) == 1


def test_the_rate_of_returns_is_the_best_over_all_times_to_stop_waiting() -> None:
    # Two came back after 1 s, one after 4 s, one gave up after 4 s: span 0 saw 2 returns in 4 s,
    # spans 1 to 4 one return (in span 4) in 6 s, of which span 4 alone 2 · (4 − √8) = 2.343 s.
    # At span 0 it is best to stop at its end: 2/4; going on to 4 s would give 3/10.
    # At span 1 to go on: 1/6; at span 4: 1/2.343. Later nothing was seen: what was known last.
    state = Absences()
    for away_s, returned in ((1.0, True), (1.0, True), (4.0, True), (4.0, False)):
        absence(state, away_s, returned)
    reestimate(state)
    last = 1 / (2 * (4 - 8**0.5))
    assert state.rates[:2] == pytest.approx([1 / 2, 1 / 6])
    assert state.rates[4:] == pytest.approx([last] * (SPANS - 4))


def test_before_anything_was_seen_somebody_returns_once_in_an_interval() -> None:
    state = Absences()
    assert state.rates == [1 / REESTIMATE_EVERY_S] * SPANS
    reestimate(state)
    assert state.rates == [1 / REESTIMATE_EVERY_S] * SPANS


def test_return_rate_adds_deliveries_now_and_deliveries_on_return() -> None:
    # One is connected and waits for 100 bytes: 1 · 1/s / 100 = 0.01 a byte and second.
    # Four are away and come back at 0.02/s. The oldest 100 bytes are worth 12 deliveries. In the
    # 50 s that an object stays, 50 · 10 = 500 bytes and 50 · 0.1 = 5 objects for each of the four
    # come behind it: (12 + 20) / (100 + 500) = 0.053 a byte, less than 12 / 100 alone.
    candidate = Candidate(
        attached=5,
        online=1,
        waiting=3,
        present=1,
        tail_size_bytes=100,
        arrival_bytes_per_s=10.0,
        arrivals_per_s=0.1,
        hold_s=50.0,
    )
    state = Absences(rates=[0.02] * SPANS, least_worth=12.0, least_bytes=100)
    assert return_rate(state, candidate) == pytest.approx(0.01 + 0.02 * 32 / 600)
    state.least_worth = 1.0  # alone 1 / 100, less than (1 + 20) / 600: what comes is no help
    assert return_rate(state, candidate) == pytest.approx(0.01 + 0.02 * 1 / 100)


def test_who_has_been_away_for_longer_comes_back_at_the_rate_of_that_span() -> None:
    # Two wait, both away, since 90 s and 94 s: at 100 s, 8 s on average.
    state = Absences(least_worth=2.0, least_bytes=10)
    state.rates[span_of(8.0)] = 0.5
    candidate = Candidate(waiting=2, tail_size_bytes=10, away_since_ms=184_000, now=100.0)
    assert return_rate(state, candidate) == pytest.approx(0.5 * 2 / 10)


def test_the_run_of_oldest_objects_that_gives_most_room_for_least_counts() -> None:
    # A fetch takes 0.5 s: a first miss is worth 3 deliveries. Two wait for the tail of 10 bytes, of
    # whom one misses something already: 2 + 3 = 5, half a delivery a byte. One begins with the
    # next, of 90: 5 + 3 + 3 = 11 for 100. With one more of 10, where one begins too:
    # 11 + 4 + 3 = 18 for 110.
    state, candidate = Absences(), Candidate(fetch_delay_s=0.5, spoiled=1)
    assert look(state, candidate, 0, 10, 2)
    assert (state.least_worth, state.least_bytes) == (5.0, 10)
    assert look(state, candidate, 1, 90, 1)
    assert (state.least_worth, state.least_bytes) == (11.0, 100)
    assert look(state, candidate, 2, 10, 1)
    assert (state.least_worth, state.least_bytes) == (11.0, 100)
    assert not look(state, candidate, LOOK_AHEAD - 1, 10, 1)
