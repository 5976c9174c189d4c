"""What the poller reads for those who miss results: all of it, in few queries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.deliveries.poller import NEAR, merged

ASKED = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 300), st.integers(0, 30)).map(
        lambda one: (one[0], one[1], one[1] + one[2])
    )
)


@given(ASKED)
def test_what_is_asked_for_is_read_once_with_little_else(asked: list[tuple[int, int, int]]) -> None:
    wanted = {(one, at) for one, after, upto in asked for at in range(after + 1, upto + 1)}
    read = [
        (one.backend, position)
        for one in merged(asked)
        for position in range(one.after + 1, one.upto + 1)
    ]
    assert len(read) == len(set(read))
    assert wanted <= set(read)
    for backend, position in set(read) - wanted:
        beside = range(position - NEAR, position + NEAR + 1)
        assert any((backend, one) in wanted for one in beside)
    assert all(one.limit == one.upto - one.after > 0 for one in merged(asked))


def test_holes_near_each_other_cost_one_query() -> None:
    assert len(merged((1, 3 * one, 3 * one + 1) for one in range(400))) == 1
    assert len(merged([(1, 0, 1), (1, NEAR + 2, NEAR + 3), (2, 0, 1)])) == 3
