"""What the machine decides of pages, rule by rule: which are fetched, kept, dropped and served."""

from __future__ import annotations

from typing import Any

import msgspec

from tocsin.broker.machine.effects import (
    DropPage,
    EndFetch,
    Fail,
    FetchPage,
    KeepPage,
    NewPages,
    ServePage,
)
from tocsin.broker.machine.pages import Pages
from tocsin.broker.machine.pages.fetches import FETCHES_AT_ONCE, PUSHES_AT_ONCE
from tocsin.errors import TocsinError, Unavailable
from tocsin.model import Attachment, Result
from tocsin.policies.page import parse_page_policy

A, B, C = "a" * 64, "b" * 64, "c" * 64
AWAY = Unavailable("no answer")


class Reader:
    def answered(self, answer: ServePage) -> None: ...
    def failed(self, error: TocsinError) -> None: ...


def pages_of(policy: str = "lru", capacity_bytes: int = 100) -> Pages:
    return Pages(parse_page_policy(policy), capacity_bytes)


def mention(*ids: str, size: int = 10, made_at: float = 1.0, story: object = None) -> NewPages:
    """Results for two subscriptions."""
    results = []
    for position, id in enumerate(ids, 1):
        record: dict[str, Any] = {"photo": Attachment(id, size, "image/png"), "key": story}
        results.append(Result(1, position, made_at, msgspec.json.encode(record)))
    return NewPages("floods", 2, results, ("photo",), ("key",))


def keep(pages: Pages, page: str, size_bytes: int = 10) -> None:
    reader = Reader()
    (fetch,) = pages.asked(reader, page, False)
    assert isinstance(fetch, FetchPage)
    pages.begun(fetch.fetch, size_bytes)
    assert pages.fetched(fetch.fetch) == [KeepPage(fetch.fetch, page)]
    assert pages.left(reader) == [EndFetch(fetch.fetch)]


def test_many_askers_are_one_fetch_and_read_it_while_it_comes() -> None:
    pages, readers = pages_of(), [Reader() for _ in range(3)]
    assert pages.asked(readers[0], A, True) == [FetchPage(1, A)]
    assert pages.asked(readers[1], A, False) == []
    served = pages.begun(1, 10)
    assert served == [ServePage(reader, A, 10, 1) for reader in readers[:2]]
    assert pages.asked(readers[2], A, False) == [ServePage(readers[2], A, 10, 1)]
    assert pages.fetched(1) == [KeepPage(1, A)]
    assert pages.left(readers[0]) == pages.left(readers[1]) == []
    assert pages.left(readers[2]) == [EndFetch(1)]
    assert pages.asked(readers[0], A, False) == [ServePage(readers[0], A, 10, None)]


def test_what_is_evicted_is_dropped() -> None:
    pages = pages_of(capacity_bytes=20)
    keep(pages, A)
    keep(pages, B)
    reader = Reader()
    pages.asked(reader, C, False)
    assert pages.begun(3, 10) == [ServePage(reader, C, 10, 3), DropPage(A)]
    assert list(pages.kept) == [B]


def test_who_waits_for_a_fetch_that_fails_hears_of_it_and_the_next_begins_anew() -> None:
    pages, reader = pages_of(), Reader()
    pages.asked(reader, A, False)
    assert pages.failed(1, AWAY) == [Fail(reader, AWAY), EndFetch(1)]
    assert pages.asked(reader, A, False) == [FetchPage(2, A)]
    pages.begun(2, 10)
    assert pages.failed(2, AWAY) == []  # it reads already, and sees that
    assert A not in pages.cache
    assert pages.left(reader) == [EndFetch(2)]


def test_a_fetch_that_nobody_waits_for_is_given_up_and_its_late_answer_changes_nothing() -> None:
    pages, reader = pages_of("none"), Reader()
    pages.asked(reader, A, False)
    assert pages.left(reader) == [EndFetch(1)]
    assert pages.begun(1, 10) == pages.fetched(1) == pages.failed(1, AWAY) == []
    assert pages.filling == 0


def test_announced_pages_are_gathered_and_fetched_few_at_once() -> None:
    pages = pages_of("sg1", 1000)
    ids = [f"{number:064x}" for number in range(10)]
    pages.announced(mention(*ids), 0.0)
    pages.announced(mention(ids[0]), 0.01)
    assert pages.tick(0.04) == []
    first = [FetchPage(number, ids[number - 1]) for number in range(1, PUSHES_AT_ONCE + 1)]
    assert pages.tick(0.05) == first
    assert pages.asked(Reader(), ids[9], True) == [FetchPage(10, ids[9])]  # it overtakes
    assert pages.failed(1, AWAY) == [EndFetch(1), FetchPage(5, ids[4])]


def test_no_more_fetches_than_so_many_are_under_way() -> None:
    pages = pages_of()
    for number in range(FETCHES_AT_ONCE):
        assert len(pages.asked(Reader(), f"{number:064x}", False)) == 1
    reader = Reader()
    assert pages.asked(reader, A, False) == []
    assert FetchPage(FETCHES_AT_ONCE + 1, A) in pages.failed(1, AWAY)


def test_a_size_that_a_query_made_up_is_found_out_and_the_fetch_given_up() -> None:
    pages = pages_of("sg1", 50)
    pages.announced(mention(A, size=1), 0.0)
    assert pages.tick(1.0) == [FetchPage(1, A)]
    assert pages.begun(1, 10_000) == [EndFetch(1)]
    assert A not in pages.cache


def test_what_is_damaged_is_dropped_and_fetched_again() -> None:
    pages = pages_of()
    keep(pages, A)
    assert pages.damaged(A) == [DropPage(A)]
    assert pages.damaged(A) == []
    assert pages.asked(Reader(), A, False) == [FetchPage(2, A)]
    assert pages.damaged(A) == []  # of the file before: the fetch goes on
    assert pages.filling == 1


def test_a_smaller_budget_drops_and_gives_up() -> None:
    pages = pages_of("sg1")
    pages.announced(mention(A, B), 0.0)
    pages.tick(1.0)
    pages.begun(1, 10)
    pages.fetched(1)
    effects = pages.set_policy(parse_page_policy("lru"), 0)
    assert sorted(map(repr, effects)) == sorted(map(repr, [DropPage(A), EndFetch(2)]))


def test_what_an_earlier_process_left_is_taken_as_far_as_it_fits() -> None:
    pages = pages_of(capacity_bytes=20)
    assert pages.begin([(A, 10), (B, 10), (C, 10)]) == [DropPage(A)]
    assert pages.kept == {B: 10, C: 10}
    assert pages.cache.counters.requests == 0


def test_another_store_forgets_stories_and_keeps_pages() -> None:
    pages = pages_of()
    keep(pages, A)
    pages.announced(mention(A, story=1, made_at=5.0), 0.0)
    pages.announced(mention(B, story=1, made_at=6.0), 0.0)
    assert pages.cache.is_superseded(A)
    pages.store_replaced()
    pages.announced(mention(A, story=1, made_at=1.0), 0.0)
    assert not pages.cache.is_superseded(A)
    assert A in pages.kept
