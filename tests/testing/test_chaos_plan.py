"""Faults of a chaos run are drawn from its seed: the same again, spread out, and over in time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.testing.chaos.plan import AT_ONCE, FIRST_S, Kind, draw

KINDS = [
    Kind("kill a", "a"),
    Kind("pause a", "a", 6.0),
    Kind("pause b", "b", 6.0),
    Kind("cut c", "c", 6.0),
    Kind("fill d", "d", 6.0),
    Kind("step e", "e", 12.0),
]
SEEDS = st.integers(0, 10_000)
LENGTHS = st.floats(5.0, 600.0)


def test_a_seed_gives_the_same_plan_and_another_one_another() -> None:
    assert draw(7, 60.0, KINDS) == draw(7, 60.0, KINDS)
    assert draw(7, 60.0, KINDS) != draw(8, 60.0, KINDS)


@given(SEEDS, LENGTHS)
def test_a_plan_begins_when_all_is_well_and_is_over_in_time(seed: int, length_s: float) -> None:
    plan = draw(seed, length_s, KINDS)
    assert plan
    assert [planned.begin_s for planned in plan] == sorted(planned.begin_s for planned in plan)
    for planned in plan:
        assert FIRST_S <= planned.begin_s <= planned.end_s <= round(length_s, 3)


@given(SEEDS)
def test_few_things_happen_at_once_and_never_two_to_the_same_target(seed: int) -> None:
    targets = {kind.name: kind.target for kind in KINDS}
    plan = draw(seed, 300.0, KINDS)
    for planned in plan:
        under_way = [
            other
            for other in plan
            if other is not planned and other.begin_s <= planned.begin_s < other.end_s
        ]
        assert len(under_way) < AT_ONCE
        assert targets[planned.name] not in {targets[other.name] for other in under_way}


def test_every_kind_happens_in_a_long_run() -> None:
    assert {planned.name for planned in draw(1, 1800.0, KINDS)} == {kind.name for kind in KINDS}
