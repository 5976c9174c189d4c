"""Which results travel with the notice of their head: the newest, without holes, not too many."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster import broker_news
from tocsin.cluster.broker_news import Pushed
from tocsin.model import Head, Result


def pushed(positions: Iterable[int], backend: int = 1, size: int = 1) -> Pushed:
    made = Pushed()
    for position in positions:
        made.add(Result(backend, position, 0.0, b"x" * size))
    return made


def told(made: Pushed, head: int, backend: int = 1) -> list[int]:
    return [one.position for one in made.up_to(Head(backend, "e", head))]


@given(st.lists(st.integers(1, 9)), st.integers(0, 10))
def test_what_is_told_has_no_hole_and_ends_at_the_head(positions: list[int], head: int) -> None:
    found = told(pushed(positions), head)
    assert found == list(range(head - len(found) + 1, head + 1))
    assert set(found) <= set(positions)


def test_all_that_came_together_is_told() -> None:
    made = pushed([4, 5, 6])
    assert told(made, 6) == [4, 5, 6]
    assert told(made, 5) == [4, 5]
    assert told(made, 7) == told(made, 3) == told(made, 6, backend=2) == []


def test_what_is_newer_than_the_heads_waits_for_the_next_notice() -> None:
    left = pushed([4, 5, 6]).after([Head(1, "e", 5), Head(2, "e", 9)])
    assert told(left, 6) == [6]
    assert told(pushed([4]).after([]), 4) == []  # a backend subscription that the broker lacks


def test_a_broker_that_is_away_costs_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_news, "PUSHED_BYTES_AT_MOST", 10)
    made = pushed(range(1, 8), size=4)
    assert told(made, 7) == [7]
