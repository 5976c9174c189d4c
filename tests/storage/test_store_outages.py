"""The server goes away and comes back: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from sqlalchemy import select

from tocsin.errors import Unavailable
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .broken_network import BrokenNetwork
from .conftest import DatabaseServer, furnish, until

FLOOD = {"type": "flood"}


@pytest.fixture
def far(server: DatabaseServer, network: BrokenNetwork) -> Iterator[Store]:
    """A furnished store behind the network, whose callers wait as long as a test may take."""
    with Store.open(network.through(server.fresh()), patience_s=120.0) as store:
        furnish(store)
        yield store


@pytest.mark.parametrize("answer_is_lost", [False, True])
def test_a_commit_without_an_answer_is_done_once(
    far: Store, network: BrokenNetwork, answer_is_lost: bool
) -> None:
    made, _ = far.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    network.cut_at(b"COMMIT", answer_is_lost=answer_is_lost)
    done = far.runs.commit_run(Run("by_type", "b1", 1.0, 2.0), [(made.backend.id, b"{}")] * 3)
    assert network.cuts == 1
    assert done is not None
    assert [one.head for one in done.heads] == [3]
    assert len(far.results.read(made.backend.id, 0, 99, 99).results) == 3
    assert far.sequence() == done.sequence


@pytest.mark.parametrize("answer_is_lost", [False, True])
def test_what_follows_a_commit_without_an_answer_happens_once(
    far: Store, network: BrokenNetwork, answer_is_lost: bool
) -> None:
    version = far.subscriptions.parameter_version("by_type")
    network.cut_at(b"COMMIT", answer_is_lost=answer_is_lost)
    made, created = far.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    assert (network.cuts, created) == (1, True)
    changes = far.subscriptions.parameter_changes("by_type", version)
    assert changes is not None
    assert changes[1:] == ([(made.backend.id, FLOOD)], [])
    assert far.subscriptions.all_() == [made]
    assert far.subscriptions.unsubscribe(made.id) == made


def test_a_transaction_that_breaks_in_the_middle_is_repeated_whole(
    far: Store, network: BrokenNetwork
) -> None:
    network.cut_at(b"frontend_subscriptions", answer_is_lost=True)
    made, created = far.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    assert (network.cuts, created) == (1, True)
    assert far.subscriptions.all_() == [made]
    assert made.id == made.backend.id == 1  # what was rolled back took no id


@pytest.mark.parametrize("answer_is_lost", [False, True])
def test_a_read_that_breaks_in_the_middle_is_repeated(
    far: Store, network: BrokenNetwork, answer_is_lost: bool
) -> None:
    network.cut_at(b"FROM brokers", answer_is_lost=answer_is_lost)
    assert [broker.name for broker in far.catalog.brokers()] == ["north", "south"]
    assert network.cuts == 1


def test_a_long_outage_is_told_at_once_and_ends_by_itself(
    server: DatabaseServer, network: BrokenNetwork
) -> None:
    with Store.open(network.through(server.fresh()), patience_s=0.2) as store:
        furnish(store)
        network.cut()
        with pytest.raises(Unavailable, match="cannot answer") as told:
            store.catalog.brokers()
        assert told.value.field == "store"
        assert store.waits_for is not None
        with pytest.raises(Unavailable, match="cannot answer"):
            store.catalog.put_broker("east", "http://east")
        network.restore()
        until(lambda: store.waits_for is None)
        assert [broker.name for broker in store.catalog.brokers()] == ["north", "south"]
        store.catalog.put_broker("east", "http://east")


def test_a_commit_in_doubt_is_settled_when_the_store_is_back_though_nobody_asks(
    server: DatabaseServer, network: BrokenNetwork
) -> None:
    """Else a subscription that was made after all would never be matched."""
    with Store.open(network.through(server.fresh()), patience_s=0.2) as store:
        furnish(store)
        version = store.subscriptions.parameter_version("by_type")
        network.cut_at(b"COMMIT", answer_is_lost=True, stays_down=True)
        with pytest.raises(Unavailable) as told:
            store.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
        assert told.value.hint == "it may have been done: look before you repeat it"
        network.restore()
        until(lambda: store.subscriptions.parameter_version("by_type") > version)
        (made,) = store.subscriptions.all_()
        changes = store.subscriptions.parameter_changes("by_type", version)
        assert changes is not None
        assert changes[1] == [(made.backend.id, FLOOD)]


def test_a_store_is_closed_in_the_middle_of_an_outage(
    server: DatabaseServer, network: BrokenNetwork
) -> None:
    store = Store.open(network.through(server.fresh()), patience_s=120.0)
    network.cut()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.catalog.brokers)
        until(lambda: store.waits_for is not None)
        store.close()
        with pytest.raises(Unavailable, match="closed"):
            waiting.result()


@pytest.mark.processes
def test_a_server_killed_and_restarted_under_load_loses_and_doubles_nothing(
    server: DatabaseServer,
) -> None:
    url = server.fresh()
    database = Database(url, patience_s=240.0)
    store = Store(database)
    furnish(store)
    backends = [
        store.subscriptions.subscribe("alice", "by_type", {"type": str(n)}, "north")[0]
        for n in range(4)
    ]
    stop = Event()
    progress = Counter[str]()

    def publish(worker: int) -> list[str]:
        """Runs that were acknowledged: each has one result for each of two backends."""
        done: list[str] = []
        while not stop.is_set():
            run = f"{worker}-{len(done)}"
            pair = (backends[worker], backends[(worker + 1) % 4])
            rows = [(one.backend.id, run.encode()) for one in pair]
            committed = store.runs.commit_run(Run("by_type", run, 1.0, 2.0), rows)
            assert committed is not None
            assert committed.count == 2
            done.append(run)
            progress["runs"] += 1
        return done

    def acknowledge() -> dict[int, int]:
        acknowledged = {}
        while not stop.is_set():
            for one in backends:
                head = store.subscriptions.get(one.id).backend.head
                assert store.subscriptions.put_markers([(one.id, one.backend.epoch, head)]) == []
                acknowledged[one.id] = head
            progress["markers"] += 1
        return acknowledged

    def subscribe() -> list[tuple[int, str]]:
        made: list[tuple[int, str]] = []
        while not stop.is_set():
            name = f"user-{len(made)}"
            one, _ = store.subscriptions.subscribe(name, "alerts", {"type": name}, "south")
            made.append((one.id, name))
            progress["subscriptions"] += 1
        return made

    def on() -> None:
        """Everybody gets something done."""
        goal = {kind: progress[kind] + 5 for kind in ("runs", "markers", "subscriptions")}
        until(lambda: all(progress[kind] >= reached for kind, reached in goal.items()))

    with ThreadPoolExecutor(4) as pool:
        publishers = [pool.submit(publish, worker) for worker in range(2)]
        acknowledging, subscribing = pool.submit(acknowledge), pool.submit(subscribe)
        try:
            on()
            server.kill()
            server.start()
            on()
            server.restart()
            on()
            server.kill()
            server.start()
            on()
        finally:
            stop.set()
        runs = [run for publisher in publishers for run in publisher.result()]
        markers, subscriptions = acknowledging.result(), subscribing.result()

    asked = select(schema.runs.c.run).where(schema.runs.c.channel == "by_type")
    stored = database.read(lambda connection: list(connection.execute(asked).scalars()))
    assert Counter(stored) == Counter(runs)
    expected = Counter({run: 2 for run in runs})
    payloads = Counter[str]()
    for one in backends:
        found = store.results.read(one.backend.id, 0, 10**9, 10**9)
        assert [result.position for result in found.results] == list(range(1, found.head + 1))
        payloads.update(result.payload.decode() for result in found.results)
    assert payloads == expected
    for number, head in markers.items():
        assert store.subscriptions.get(number).marker == head
    on_south = {(one.id, one.subscriber) for one in store.subscriptions.of_broker("south")[1]}
    assert on_south == set(subscriptions)
    journal = store.subscriptions.parameter_changes("alerts", database.opened_at_sequence)
    assert journal is not None
    assert len(journal[1]) == len(subscriptions)
    store.close()
