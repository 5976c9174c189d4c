"""What every result cache measures, worked by hand."""

from __future__ import annotations

from tocsin.policies.result.estimates import growth, moving_average


def test_moving_average_moves_by_its_weight() -> None:
    assert moving_average(10.0, 20.0, 0.5) == 15.0
    assert moving_average(10.0, 20.0, 1.0) == 20.0


def test_growth_is_what_is_not_consumed_and_never_negative() -> None:
    assert growth(300.0, 100.0) == 200.0
    assert growth(100.0, 300.0) == 0.0
