"""What a broker is told next: results that follow each other, as many as there is room for."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster import broker_news
from tocsin.cluster.broker_news import AROUND_BYTES, BrokerNews, Growth, growths, parts
from tocsin.model import Departure, Head
from tocsin.storage.store.news import News
from tocsin.storage.store.runs import Committed

NONE: frozenset[int] = frozenset()


def stored(backend: int, *positions: int, size: int = 1, pushed: bool = False) -> list[Growth]:
    count = len(positions)
    heads = [Head(backend, "e", positions[-1])]
    columns = [backend] * count, list(positions), [b"x" * size] * count
    return growths(Committed("c", "r", 1, heads, *columns, at=0.0), pushed=pushed)


def knowing(*backends: int, keeps: bool | None = True, most_bytes: int = 10_000) -> BrokerNews:
    news = BrokerNews("edge", 0, keeps, most_bytes=most_bytes)
    news.heard = {backend: Head(backend, "e", 0) for backend in backends}
    return news


def tell(
    news: BrokerNews, answer: News | None = None, served: Iterable[int] = ()
) -> dict[int, list[tuple[int, list[int]]]]:
    """Heads, and the positions that go with each."""
    grown, _ = news.finish(news.begin(), answer, frozenset(served))
    told: dict[int, list[tuple[int, list[int]]]] = {}
    for growth in grown:
        positions = [result.position for result in growth.results]
        told.setdefault(growth.head.backend, []).append((growth.head.head, positions))
    return told


def test_what_was_stored_goes_with_its_head() -> None:
    news = knowing(7)
    news.committed(stored(7, 1, 2))
    news.committed(stored(7, 3))
    assert tell(news) == {7: [(2, [1, 2]), (3, [3])]}
    assert tell(news) == {}


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 400), st.booleans())),
    st.sampled_from([200, 500, 10_000]),
)
def test_results_follow_each_other_up_to_their_head(
    commits: list[tuple[int, int, bool]], room_bytes: int
) -> None:
    news, at, told = knowing(7, most_bytes=room_bytes), 0, 0
    for count, size, now in commits:
        news.committed(stored(7, *range(at + 1, at + count + 1), size=size))
        at += count
        if now:
            carried = 0
            for head, positions in tell(news).get(7, []):
                assert not positions or positions == list(range(told + 1, head + 1))
                told = head
                carried += len(positions)
            assert told == at
            assert carried * AROUND_BYTES <= room_bytes


def test_what_does_not_fit_is_told_by_its_head_alone() -> None:
    news = knowing(7, most_bytes=2 * (AROUND_BYTES + 100))
    for position in range(1, 5):
        news.committed(stored(7, position, size=100))
    assert tell(news) == {7: [(1, [1]), (2, [2]), (4, [])]}
    news.committed(stored(7, 5, size=100))
    assert tell(news) == {7: [(5, [5])]}  # there is room again


@pytest.mark.parametrize(
    ("keeps", "pushed", "carried"),
    [
        (True, False, True),
        (True, True, True),
        (False, False, False),
        (False, True, False),
        (None, False, False),  # an older broker, or one that was not heard yet
        (None, True, True),
    ],
)
def test_results_go_to_brokers_that_keep_them(
    keeps: bool | None, pushed: bool, carried: bool
) -> None:
    news = knowing(7, keeps=keeps)
    news.committed(stored(7, 1, pushed=pushed))
    assert tell(news) == {7: [(1, [1] if carried else [])]}


def test_of_strangers_the_store_says_who_serves_them() -> None:
    news = knowing()
    news.committed(stored(7, 1) + stored(8, 1))
    assert tell(news) == {}  # not yet: they may be somebody else's
    news.look()
    assert tell(news, served=[7]) == {7: [(1, [1])]}
    news.committed(stored(7, 2) + stored(8, 2))
    assert tell(news) == {7: [(2, [2])]}
    assert not news.strangers  # 8 is elsewhere: nobody asks again


def test_what_is_stored_while_the_store_is_asked_follows() -> None:
    news = knowing()
    news.committed(stored(7, 1))
    news.look()
    telling = news.begin()
    news.committed(stored(7, 2))
    (first,), _ = news.finish(telling, None, frozenset([7]))
    assert first.head.head == 1
    assert tell(news) == {7: [(2, [2])]}


def test_who_comes_to_a_broker_brings_their_heads() -> None:
    news = knowing(5)
    news.elsewhere.add(7)
    news.committed(stored(5, 1))
    answer: News = (9, [Head(5, "e", 1), Head(7, "e", 4), Head(8, "e", 0)], [])
    news.ask()
    assert tell(news, answer) == {5: [(1, [1])], 7: [(4, [])], 8: [(0, [])]}
    assert news.since == 9
    news.committed(stored(7, 5))
    assert tell(news) == {7: [(5, [5])]}


def test_what_nobody_at_the_broker_holds_is_looked_up_again() -> None:
    news = knowing(7)
    news.answered(True, [7])
    news.committed(stored(7, 1))
    assert tell(news) == {}
    news.look()
    assert tell(news) == {}  # it has left
    news.committed(stored(7, 2))
    assert not news.strangers


def test_nothing_is_lost_when_the_store_does_not_answer() -> None:
    news = knowing(7)
    news.committed(stored(7, 1) + stored(8, 1))
    news.ask()
    news.look()
    telling = news.begin()
    news.committed(stored(7, 2) + stored(8, 2))
    news.put_back(telling)
    assert news.doubtful
    assert news.looking
    assert tell(news, served=[8]) == {7: [(1, [1]), (2, [2])], 8: [(1, [1]), (2, [2])]}


def test_a_broker_that_registers_is_told_all_again() -> None:
    news = knowing(7)
    news.begin_anew()
    assert (news.heard, news.keeps) == ({}, None)


def test_notices_are_no_larger_than_brokers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_news, "NOTICE_BYTES_AT_MOST", 3 * (AROUND_BYTES + 1))
    monkeypatch.setattr(broker_news, "HEADS_AT_MOST", 4)
    news = [growth for backend in range(4) for growth in stored(backend, 1)]
    news += [growth.by_head for backend in range(4, 10) for growth in stored(backend, 1)]
    told = list(parts(news, [Departure(number) for number in range(9)]))
    assert [growth for part, _ in told for growth in part] == news
    assert [len(part) for part, _ in told] == [3, 4, 3]
    assert [len(gone) for _, gone in told] == [4, 4, 1]
    assert list(parts([], [])) == []


def test_a_result_that_no_notice_takes_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_news, "NOTICE_BYTES_AT_MOST", 100)
    news = knowing(7)
    news.committed(stored(7, 1, size=101))
    assert tell(news) == {7: [(1, [])]}
