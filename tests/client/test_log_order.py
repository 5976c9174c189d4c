"""A consumer log in order: each result once, by position, and what is missing is asked for."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tocsin.client.log_order import MOST_AT_ONCE, LogOrder, Taken


def taken(order: LogOrder) -> list[Taken]:
    found = []
    while (one := order.pop()) is not None:
        found.append(one)
    return found


def popped(order: LogOrder) -> list[int]:
    return [one.position for one in taken(order)]


@given(
    st.integers(0, 5),
    st.integers(1, 40),
    st.integers(3, 60),
    st.floats(0, 1),
    st.randoms(use_true_random=False),
)
def test_everything_comes_out_once_and_in_order(
    after: int, count: int, room: int, admitted: float, chance: random.Random
) -> None:
    """The log loses, repeats and shuffles; whoever fills answers some of what is asked."""
    order = LogOrder(after, room)
    log = [one for one in range(after + 1, after + count + 1) if chance.random() < admitted]
    out: list[Taken] = []
    for offset, position in enumerate(log):
        order.put(position, offset, position)
        if chance.random() < 0.3:
            out += taken(order)
    order.mark(after + count, len(log))
    offset = len(log)
    for _ in range(1000):
        if out and out[-1].position == after + count:
            break
        asked = [one for low, high in order.holes() for one in range(low + 1, high + 1)]
        assert len(asked) == len(set(asked))
        for position in chance.sample(asked, len(asked)):
            if chance.random() < 0.7:
                for _ in range(chance.choice((1, 1, 2))):
                    order.put(position, offset := offset + 1, position)
        out += taken(order)
        order.ask_again()
    assert [one.position for one in out] == list(range(after + 1, after + count + 1))
    beyond = {one for one in log if one > after + room}  # perhaps dropped, and filled in later
    assert all(one.filled == (one.position not in log) for one in out if one.position not in beyond)
    assert order.complete
    assert order.holes() == []


def test_a_hole_is_asked_for_once_until_asked_again() -> None:
    order = LogOrder(0)
    order.put(3, 0, "c")
    assert order.pop() is None
    assert order.holes() == [(0, 2)]
    order.put(6, 1, "f")
    assert order.holes() == [(3, 5)]
    assert order.holes() == []
    assert not order.complete
    order.ask_again()
    assert order.holes() == [(0, 2), (3, 5)]


def test_a_long_hole_is_asked_for_in_pieces() -> None:
    order = LogOrder(0)
    order.mark(2 * MOST_AT_ONCE + 1, 0)
    pieces = order.holes()
    assert [high - low for low, high in pieces] == [MOST_AT_ONCE, MOST_AT_ONCE, 1]
    assert [low for low, _ in pieces] == [0, *(high for _, high in pieces[:-1])]


def test_what_expired_is_told_with_the_next_result() -> None:
    order = LogOrder(0)
    order.put(2, 0, "b")
    order.put(7, 1, "g")
    order.expired(5, 2)
    assert order.pop() == Taken(2, "b", (1, 1))
    assert order.pop() is None  # 6 may still come
    assert order.holes() == [(5, 6)]
    order.put(6, 3, "f")
    assert order.pop() == Taken(6, "f", (3, 5), filled=True)
    assert order.pop() == Taken(7, "g", None)


def test_it_resumes_where_nothing_unacknowledged_lies_behind() -> None:
    order = LogOrder(0)
    order.put(3, 0, "c")  # admitted, before what was missing
    order.put(1, 1, "a")
    order.put(2, 2, "b")
    assert popped(order) == [1, 2, 3]
    assert order.acknowledge(1) == 0
    assert order.acknowledge(2) == 0
    assert order.acknowledge(3) == 3


def test_an_empty_reference_is_missing_again() -> None:
    order = LogOrder(0)
    order.put(1, 0, "reference")
    empty = order.pop()
    assert empty is not None
    assert order.holes() == []
    order.put_back(empty)
    assert order.holes() == [(0, 1)]
    order.put(1, 1, "value")
    assert order.pop() == Taken(1, "value", None, filled=True)


def test_a_repeat_does_not_hide_what_is_missing() -> None:
    order = LogOrder(0)
    order.put(1, 0, "a")
    assert popped(order) == [1]
    order.put(1, 1, "a")
    order.mark(2, 2)
    assert not order.complete
    assert popped(order) == []
