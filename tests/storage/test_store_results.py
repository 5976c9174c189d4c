"""Results: read by range, expired as a prefix, with positions that are never used twice."""

from __future__ import annotations

import pytest

from tocsin.errors import NotFound
from tocsin.storage.store.results import Range
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

FLOOD = {"type": "flood"}


def subscribe(store: Store, type_: str = "flood") -> int:
    made, _ = store.subscriptions.subscribe("alice", "by_type", {"type": type_}, "north")
    return made.backend.id


def commit(store: Store, run: str, backend: int, count: int, at: float) -> None:
    rows = [(backend, f"{run}/{n}".encode()) for n in range(count)]
    assert store.runs.commit_run(Run("by_type", run, at, at), rows) is not None


def kept(store: Store, backend: int) -> tuple[int, int, list[int]]:
    found = store.results.read(backend, 0, 10**9, 10**9)
    return found.floor, found.head, [result.position for result in found.results]


@pytest.mark.parametrize(
    ("after", "upto", "limit", "expected"),
    [
        (0, 10, 100, list(range(1, 11))),
        (3, 6, 100, [4, 5, 6]),
        (3, 99, 2, [4, 5]),
        (10, 99, 100, []),
        (6, 3, 100, []),
        (0, 10, 0, []),
        (-5, 2, 100, [1, 2]),
    ],
)
def test_a_range_is_open_below_and_closed_above(
    city: Store, after: int, upto: int, limit: int, expected: list[int]
) -> None:
    flood = subscribe(city)
    commit(city, "a", flood, 10, at=1)
    found = city.results.read(flood, after, upto, limit)
    assert [result.position for result in found.results] == expected
    assert (found.backend, found.floor, found.head) == (flood, 0, 10)
    assert found.epoch == city.subscriptions.all_()[0].backend.epoch


def test_an_unknown_backend_subscription_is_not_found(city: Store) -> None:
    with pytest.raises(NotFound, match="no backend subscription 42"):
        city.results.read(42, 0, 1, 1)


def test_many_ranges_are_answered_in_order_and_one_that_is_gone_harms_no_other(city: Store) -> None:
    flood, fire = subscribe(city), subscribe(city, "fire")
    commit(city, "a", flood, 2, at=1)
    commit(city, "b", fire, 1, at=1)
    asked = [Range(fire, 0, 9, 9), Range(42, 0, 9, 9), Range(flood, 1, 9, 9)]
    one, two, three = city.results.read_many(asked)
    assert one is not None
    assert two is None
    assert three is not None
    assert [result.payload for result in one.results] == [b"b/0"]
    assert [(result.position, result.payload) for result in three.results] == [(2, b"a/1")]


def test_expiry_drops_the_old_and_raises_the_floor(city: Store) -> None:
    flood, fire = subscribe(city), subscribe(city, "fire")
    commit(city, "a", flood, 3, at=10)
    commit(city, "b", flood, 2, at=20)
    commit(city, "c", fire, 1, at=20)
    assert city.results.expire(before=20) == 3
    assert kept(city, flood) == (3, 5, [4, 5])
    assert kept(city, fire) == (0, 1, [1])
    assert city.results.expire(before=20) == 0


def test_positions_go_on_where_they_were_after_everything_expired(city: Store) -> None:
    flood = subscribe(city)
    commit(city, "a", flood, 3, at=10)
    assert city.results.expire(before=11) == 3
    assert kept(city, flood) == (3, 3, [])
    commit(city, "b", flood, 2, at=20)
    assert kept(city, flood) == (3, 5, [4, 5])


def test_a_clock_that_went_back_leaves_no_hole(city: Store) -> None:
    flood = subscribe(city)
    commit(city, "a", flood, 1, at=10)
    commit(city, "b", flood, 1, at=30)
    commit(city, "c", flood, 1, at=10)
    assert city.results.expire(before=20) == 1
    assert kept(city, flood) == (1, 3, [2, 3])
    assert city.results.expire(before=31) == 2
    assert kept(city, flood) == (3, 3, [])


def test_expiry_works_in_portions_and_still_takes_all(
    city: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.storage.store.results._EXPIRED_AT_ONCE", 4)
    backends = [subscribe(city, str(n)) for n in range(7)]
    for number in backends:
        commit(city, f"old-{number}", number, 3, at=10)
        commit(city, f"new-{number}", number, 1, at=20)
    assert city.results.expire(before=15) == 21
    assert {kept(city, number)[2][0] for number in backends} == {4}


def test_old_runs_are_forgotten_but_never_the_newest_of_a_channel(city: Store) -> None:
    for number in range(3):
        city.runs.commit_run(Run("by_type", f"run-{number}", 1, 2), [])
        city.runs.commit_run(Run("alerts", f"run-{number}", 1, 2 + number * 10), [])
    city.results.expire(before=5)
    assert [one.run for one in city.runs.recent_runs("by_type", 9)] == ["run-2"]
    assert [one.run for one in city.runs.recent_runs("alerts", 9)] == ["run-2", "run-1"]
    assert city.runs.commit_run(Run("by_type", "run-2", 1, 2), []) is None
