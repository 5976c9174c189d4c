"""How far a channel has run moves with what its run stored, from where the run began, or not at
all; what it went past is told to its subscribers as a result of its own."""

from __future__ import annotations

import json

from tocsin.storage.store.gaps import gap_rows
from tocsin.storage.store.matches import Match
from tocsin.storage.store.progress import Loss, Progress
from tocsin.storage.store.runs import Run, RunStart
from tocsin.storage.store.store import Store

FLOOD = {"type": "flood"}
FIRE = {"type": "fire"}
START = Progress({"reports": 0}, 5)


def backend(store: Store, arguments: dict[str, str], since: int = 0) -> int:
    made, _ = store.subscriptions.subscribe("alice", "by_type", arguments, "north", since=since)
    return made.backend.id


def run(name: str, end: int, at_us: int, rows: int = 0) -> Run:
    return Run("by_type", name, 1.0, 2.0, 5, at_us, {"reports": end}, rows)


def payloads(store: Store, number: int) -> list[bytes]:
    return [result.payload for result in store.results.read(number, 0, 99, 99).results]


def test_progress_moves_with_the_results_of_a_run(city: Store) -> None:
    flood = backend(city, FLOOD)
    assert city.progress.of("by_type") is None
    assert city.runs.commit_run(run("a", 10, 6), [(flood, b"1")], start=RunStart(START)) is not None
    assert city.progress.of("by_type") == Progress({"reports": 10}, 6)
    later = Progress({"reports": 10}, 6)
    assert city.runs.commit_run(run("b", 30, 9), [(flood, b"2")], start=RunStart(later)) is not None
    assert city.progress.of("by_type") == Progress({"reports": 30}, 9)
    assert payloads(city, flood) == [b"1", b"2"]


def test_run_that_began_elsewhere_than_the_channel_stands_stores_nothing(city: Store) -> None:
    flood = backend(city, FLOOD)
    city.runs.commit_run(run("a", 10, 6), [(flood, b"1")], start=RunStart(START))
    assert city.runs.commit_run(run("again", 12, 8), [(flood, b"1")], start=RunStart(START)) is None
    ahead = Progress({"reports": 11}, 6)
    assert city.runs.commit_run(run("ahead", 12, 8), [(flood, b"x")], start=RunStart(ahead)) is None
    assert city.progress.of("by_type") == Progress({"reports": 10}, 6)
    assert payloads(city, flood) == [b"1"]


def test_quiet_run_moves_progress_and_is_not_listed(city: Store) -> None:
    backend(city, FLOOD)
    city.runs.commit_run(run("a", 10, 6), [], start=RunStart(START), quiet=True)
    assert city.progress.of("by_type") == Progress({"reports": 10}, 6)
    assert city.runs.last_run("by_type") is None


def test_loss_is_listed_and_told_in_the_transaction_that_goes_past_it(city: Store) -> None:
    flood, fire = backend(city, FLOOD), backend(city, FIRE)
    loss = Loss("reports", 3, 7, 1, "index out of bounds")
    rows = [*gap_rows([flood, fire], [loss]), (flood, b"{}")]
    assert (
        city.runs.commit_run(run("a", 10, 6), rows, start=RunStart(START), losses=[loss])
        is not None
    )
    (listed,) = city.progress.losses("by_type", 5)
    assert (listed.first, listed.end, listed.records, listed.cause) == (3, 7, 1, loss.cause)
    (told,) = payloads(city, fire)
    assert json.loads(told)["_gap"] == {
        "cause": "index out of bounds", "dataset": "reports", "first": 3, "end": 7, "records": 1,
    }  # fmt: skip
    assert payloads(city, flood)[1] == b"{}"


def test_lost_records_are_told_once_to_all_who_wait_for_the_dataset(city: Store) -> None:
    flood, fire = backend(city, FLOOD), backend(city, FIRE)
    first = city.gaps.records_lost("reports", 100, 160, "the file is damaged")
    assert {head.backend for told in first for head in told.heads} == {flood, fire}
    assert city.gaps.records_lost("reports", 100, 160, "the file is damaged") == []
    for number in (flood, fire):
        (told,) = payloads(city, number)
        assert json.loads(told)["_gap"]["first"] == 100
    assert [loss.end for loss in city.progress.losses("by_type", 9)] == [160]


def test_dropped_channel_leaves_no_progress_behind(city: Store) -> None:
    city.runs.commit_run(run("a", 10, 6), [], start=RunStart(START))
    city.catalog.drop_channel("by_type")
    assert city.progress.of("by_type") is None


def test_parameter_set_that_is_set_aside_is_asked_no_more(city: Store) -> None:
    flood, fire = backend(city, FLOOD), backend(city, FIRE)
    version = city.subscriptions.parameter_version("by_type")
    city.subscriptions.set_aside("by_type", {fire: "a bad pattern"})
    assert [number for number, _ in city.subscriptions.parameter_sets("by_type")] == [flood]
    assert city.subscriptions.failures("by_type") == {fire: "a bad pattern"}
    changes = city.subscriptions.parameter_changes("by_type", version)
    assert changes is not None
    assert changes[1:] == ([], [fire])


def test_records_before_a_subscription_do_not_count_for_it(city: Store) -> None:
    old, young = backend(city, FLOOD), backend(city, FIRE, since=50)
    assert city.subscriptions.starting_after("by_type", 10) == {young: 50}
    assert city.subscriptions.starting_after("by_type", 50) == {}
    assert city.subscriptions.made_after("by_type", old) == [(young, FIRE, 50)]
    matches = [
        Match("by_type", number, position, b"%d" % position)
        for position in (49, 50)
        for number in (old, young)
    ]
    city.matches.store(matches)
    city.matches.store(matches)
    assert payloads(city, old) == [b"49", b"50"]
    assert payloads(city, young) == [b"50"]
