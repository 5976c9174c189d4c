"""How soon subscribers come back equals what a count over all absences gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.caching.absences import Absences
from tocsin.policies.estimates import REESTIMATE_EVERY_S, bin_ends

ABSENCE = st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 30.0, 31.0, 4000.0]), st.booleans())


@settings(max_examples=50, deadline=None)
@given(st.lists(ABSENCE, max_size=30))
def test_rates_are_those_of_the_best_time_to_stop_waiting(seen: list[tuple[float, bool]]) -> None:
    absences = Absences()
    for away_s, returned in seen:
        absences.ended(away_s, returned=returned)
    absences.learn()
    ends = bin_ends()
    expected = 1 / REESTIMATE_EVERY_S
    for begin, end in zip([-1.0, *ends], ends, strict=False):
        best = 0.0  # if nobody came, at most one return in the time waited is thought possible
        for stop in ends:
            if stop < end:
                continue
            came = [a for a, returned in seen if returned and begin < a <= stop]
            waited_s = sum(max(0.0, min(a, stop) - max(begin, 0.0)) for a, _ in seen)
            best = max(best, len(came) / waited_s if waited_s else 0.0)
        waited_s = sum(max(0.0, a - max(begin, 0.0)) for a, _ in seen)
        in_vain = min(expected, 1 / waited_s) if waited_s else expected
        expected = best or in_vain
        inside_s = min(end, max(begin, 0.0) + 0.01)
        assert absences.return_rate(inside_s) == pytest.approx(expected)


def test_what_was_seen_counts_when_it_is_learned() -> None:
    absences = Absences()
    absences.ended(0.5, returned=True)
    assert absences.return_rate(0.0) == 1 / REESTIMATE_EVERY_S
    absences.learn()
    assert absences.return_rate(0.0) == 2.0
    assert absences.return_rate(1e12) == 2.0
