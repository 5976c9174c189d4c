"""Ranges of results are bounded by bytes: what is left out comes when it is asked for next."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from tocsin.storage.store.results import Range
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store


def backend(store: Store, kind: str) -> int:
    arguments = {"type": kind}
    return store.subscriptions.subscribe("alice", "by_type", arguments, "north")[0].backend.id


def read(store: Store, most_bytes: float, *backends: int, limit: int = 1000) -> list[list[int]]:
    ranges = [Range(number, 0, 10**9, limit) for number in backends]
    answers = store.results.read_many(ranges, most_bytes)
    return [[result.position for result in answer.results] for answer in answers if answer]


def test_an_answer_ends_when_there_are_enough_bytes(city: Store) -> None:
    flood, fire = backend(city, "flood"), backend(city, "fire")
    rows = [(number, b"x" * 100) for number in (flood, fire) for _ in range(50)]
    city.runs.commit_run(Run("by_type", "batch-1", 1.0, 2.0), rows)
    whole = list(range(1, 51))
    assert read(city, 10_000, flood, fire) == [whole, whole]
    assert read(city, 3000, flood, fire) == [whole[:30], [1]]
    assert read(city, 100, flood, fire) == [[1], [1]]
    assert read(city, float("inf"), flood, fire) == [whole, whole]


@pytest.mark.parametrize("limit", [0, 1, 15, 16, 17, 40, 50, 51])
def test_the_count_that_was_asked_for_is_kept(city: Store, limit: int) -> None:
    flood = backend(city, "flood")
    city.runs.commit_run(Run("by_type", "batch-1", 1.0, 2.0), [(flood, b"")] * 50)
    for most_bytes in (1e6, float("inf")):
        assert read(city, most_bytes, flood, limit=limit) == [list(range(1, min(limit, 50) + 1))]


def test_who_goes_on_behind_each_answer_gets_all(city: Store) -> None:
    flood = backend(city, "flood")
    sizes = [10, 5000, 1, 1, 3000, 20, 20, 9000, 1]
    rows = [(flood, b"x" * size) for size in sizes]
    city.runs.commit_run(Run("by_type", "batch-1", 1.0, 2.0), rows)
    after, got = 0, []
    while after < len(sizes):
        (answer,) = city.results.read_many([Range(flood, after, 10**9, 4)], 4000)
        assert answer is not None
        assert answer.results
        assert sum(len(result.payload) for result in answer.results[:-1]) < 4000
        got += [len(result.payload) for result in answer.results]
        after = answer.results[-1].position
    assert got == sizes


def test_ranges_of_one_backend_subscription_may_overlap(city: Store) -> None:
    flood, fire = backend(city, "flood"), backend(city, "fire")
    rows = [(number, b"{}") for number in (flood, fire) for _ in range(9)]
    city.runs.commit_run(Run("by_type", "batch-1", 1.0, 2.0), rows)
    asked = [(flood, 2, 6), (fire, 0, 2), (flood, 4, 9), (flood, 20, 30), (999, 0, 9)]
    answers = city.results.read_many([Range(*range_, limit=3) for range_ in asked], 1000)
    assert [answer and [one.position for one in answer.results] for answer in answers] == [
        *([3, 4, 5], [1, 2], [5, 6, 7], [], None)
    ]
    assert [one.backend for answer in answers if answer for one in answer.results] == [
        *([flood] * 3 + [fire] * 2 + [flood] * 3)
    ]


@pytest.mark.parametrize("most_bytes", [10_000, float("inf")])
def test_many_ranges_are_few_statements(city: Store, most_bytes: float) -> None:
    backends = [backend(city, str(number)) for number in range(60)]
    city.runs.commit_run(Run("by_type", "b1", 1.0, 2.0), [(one, b"{}") for one in backends] * 2)
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    engine = city._database.engine
    event.listen(engine, "before_cursor_execute", note)
    assert read(city, most_bytes, *backends) == [[1, 2]] * 60
    event.remove(engine, "before_cursor_execute", note)
    assert len([one for one in statements if one.startswith("SELECT")]) == 2
