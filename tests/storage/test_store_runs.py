"""Runs: committed exactly once, whole, with dense positions and ids that a replay repeats."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, select

from tocsin.errors import NotFound
from tocsin.model import Head
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish

from .conftest import Databases, furnish

FLOOD = {"type": "flood"}
FIRE = {"type": "fire"}


def backend(store: Store, arguments: dict[str, str], channel: str = "by_type") -> int:
    return store.subscriptions.subscribe("alice", channel, arguments, "north")[0].backend.id


def positions(store: Store, number: int) -> list[tuple[int, bytes]]:
    found = store.results.read(number, 0, 10**9, 10**9).results
    return [(one.position, one.payload) for one in found]


def result_ids(connection: Connection) -> set[str]:
    return set(connection.execute(select(schema.results.c.id)).scalars())


def test_results_follow_the_head_in_the_order_given(city: Store) -> None:
    flood, fire = backend(city, FLOOD), backend(city, FIRE)
    rows = [(flood, b"1"), (fire, b"2"), (flood, b"3")]
    first = city.runs.commit_run(Run("by_type", "batch-1", 1.0, 2.5), rows)
    second = city.runs.commit_run(Run("by_type", "batch-2", 3.0, 4.0), [(flood, b"four")])
    assert positions(city, flood) == [(1, b"1"), (2, b"3"), (3, b"four")]
    assert positions(city, fire) == [(1, b"2")]
    assert first is not None
    assert second is not None
    assert {(head.backend, head.head) for head in first.heads} == {(flood, 2), (fire, 1)}
    assert [(head.backend, head.head) for head in second.heads] == [(flood, 3)]
    assert second.sequence > first.sequence
    assert (first.count, first.bytes, second.count, second.bytes) == (3, 3, 1, 4)
    assert city.results.read(flood, 0, 1, 1).results[0].created_at == 2.5


def test_a_run_that_is_there_already_writes_nothing(city: Store) -> None:
    flood = backend(city, FLOOD)
    assert city.runs.commit_run(Run("by_type", "batch-1", 1, 2), [(flood, b"1")]) is not None
    sequence, _ = city.subscriptions.of_broker("north")
    assert city.runs.commit_run(Run("by_type", "batch-1", 8, 9), [(flood, b"2")]) is None
    assert positions(city, flood) == [(1, b"1")]
    assert city.subscriptions.of_broker("north")[0] == sequence
    assert city.runs.last_run("by_type") == Run("by_type", "batch-1", 1, 2)


def test_the_same_run_name_of_another_channel_is_another_run(city: Store) -> None:
    flood, alert = backend(city, FLOOD), backend(city, FLOOD, "alerts")
    assert city.runs.commit_run(Run("by_type", "batch-1", 1, 2), [(flood, b"1")]) is not None
    assert city.runs.commit_run(Run("alerts", "batch-1", 1, 2), [(alert, b"1")]) is not None


def test_rows_of_backend_subscriptions_that_are_gone_are_dropped(city: Store) -> None:
    flood, alert = backend(city, FLOOD), backend(city, FLOOD, "alerts")
    rows = [(999, b"x"), (flood, b"1"), (alert, b"of another channel")]
    done = city.runs.commit_run(Run("by_type", "batch-1", 1, 2, rows=3), rows)
    assert done is not None
    assert (done.count, [head.backend for head in done.heads]) == (1, [flood])
    assert positions(city, alert) == []


def test_a_run_without_results_is_remembered_and_is_no_news(city: Store) -> None:
    backend(city, FLOOD)
    sequence, _ = city.subscriptions.of_broker("north")
    done = city.runs.commit_run(Run("by_type", "run-1", 1, 2), [])
    assert done is not None
    assert (done.sequence, done.heads, done.count) == (sequence, [], 0)
    assert city.runs.commit_run(Run("by_type", "run-1", 1, 2), []) is None


def test_a_run_comes_back_as_it_was_committed(city: Store) -> None:
    run = Run(
        channel="by_type",
        run="run-5",
        started_at=1.25,
        ended_at=2.5,
        window_start_us=2**52,
        window_end_us=2**52 + 1,
        ends={"reports": 2**40, "shelters": 0},
        rows=7,
        error="no such column: é",
    )
    city.runs.commit_run(run, [])
    assert city.runs.last_run("by_type") == run


def test_recent_runs_are_by_commit_newest_first(city: Store) -> None:
    for name in ("run-9", "run-10", "run-2"):
        city.runs.commit_run(Run("by_type", name, 1, 2), [])
    city.runs.commit_run(Run("alerts", "run-99", 1, 2), [])
    assert [one.run for one in city.runs.recent_runs("by_type", 2)] == ["run-2", "run-10"]
    last = city.runs.last_run("by_type")
    assert last is not None
    assert last.run == "run-2"
    assert city.runs.last_run("nothing") is None


def test_a_run_of_a_dropped_channel_is_refused(city: Store) -> None:
    city.catalog.drop_channel("alerts")
    with pytest.raises(NotFound, match="no channel alerts"):
        city.runs.commit_run(Run("alerts", "batch-1", 1, 2), [])


def test_ids_depend_on_channel_run_parameters_and_row_only(databases: Databases) -> None:
    """The same run computed again, in a store with other backend ids, has the same ids."""
    seen = []
    for extra in (False, True):
        database = Database(databases.empty())
        store = Store(database)
        furnish(store)
        if extra:
            backend(store, {"type": "other"})
        flood, fire = backend(store, FLOOD), backend(store, FIRE)
        rows = [(flood, b"a"), (fire, b"b"), (flood, b"c")]
        store.runs.commit_run(Run("by_type", "batch-1", 1, 2), rows)
        store.runs.commit_run(Run("by_type", "batch-2", 1, 2), rows)
        seen.append(database.read(result_ids))
        store.close()
    assert seen[0] == seen[1]
    assert len(seen[0]) == 6
    assert {len(one) for one in seen[0]} == {32}


def test_more_backend_subscriptions_than_one_statement_may_carry(city: Store) -> None:
    made = city.subscriptions.subscribe_all(
        [Wish("alice", "by_type", {"type": str(n)}, "north") for n in range(2300)]
    )
    rows = [(one.backend.id, b"{}") for one, _ in made]
    done = city.runs.commit_run(Run("by_type", "batch-1", 1, 2), rows)
    assert done is not None
    assert done.heads == [Head(one.backend.id, one.backend.epoch, 1) for one, _ in made]
