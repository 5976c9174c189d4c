"""Who may store the matches of a topic: whoever knows how far they were taken, each once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random

import pytest

from tocsin.storage.store.match_progress import Moved, Place
from tocsin.storage.store.matches import Match
from tocsin.storage.store.runs import Run, backends_of
from tocsin.storage.store.store import Store
from tocsin.storage.store.write import SharedWrite

from .broken_network import BrokenNetwork
from .conftest import Clock, DatabaseServer, furnish

TOPIC = "tocsin.matches"


@pytest.fixture(name="backend")
def _backend(city: Store) -> int:
    return subscribed(city)


def subscribed(store: Store, kind: str = "flood") -> int:
    made, _ = store.subscriptions.subscribe("ann", "alerts", {"type": kind}, "north")
    return made.backend.id


def found(backend: int, *records: int) -> list[Match]:
    return [Match("alerts", backend, record, b"%d" % record) for record in records]


def payloads(store: Store, backend: int) -> list[bytes]:
    return [result.payload for result in store.results.read(backend, 0, 10**6, 10**6).results]


def test_of_two_who_have_read_the_same_matches_one_stores_them(city: Store, backend: int) -> None:
    place = city.matches.begin(TOPIC)[0]
    stored, then = city.matches.commit(place, found(backend, 1, 2), 2)
    assert [committed.count for committed in stored] == [2]
    with pytest.raises(Moved, match="up to 2 by another"):
        city.matches.commit(place, found(backend, 1, 2, 3), 3)
    assert payloads(city, backend) == [b"1", b"2"]
    assert city.matches.places(TOPIC) == {0: then}
    assert city.matches.commit(then, found(backend, 3), 3)[1].up_to == 3


def test_partitions_go_on_apart_from_each_other(city: Store, backend: int) -> None:
    first, second = city.matches.begin(TOPIC, 2).values()
    city.matches.commit(first, found(backend, 1), 10)
    city.matches.commit(second, found(backend, 2), 20)
    assert (city.matches.read_up_to(TOPIC, 0), city.matches.read_up_to(TOPIC, 1)) == (10, 20)
    assert city.matches.begin(TOPIC, 3)[2] == Place(TOPIC, 2, 0, 0)


def test_who_took_matches_for_a_former_holder_of_the_store_stores_nothing(
    url: str, clock: Clock
) -> None:
    with Store.open(url, clock=clock) as former:
        furnish(former)
        backend = subscribed(former)
        place = former.matches.begin(TOPIC)[0]
    with Store.open(url, clock=clock) as store:
        ours = store.matches.begin(TOPIC)[0]
        with pytest.raises(Moved):
            store.matches.commit(place, found(backend, 1), 1)
        assert payloads(store, backend) == []
        store.matches.commit(ours, found(backend, 1), 1)
        assert payloads(store, backend) == [b"1"]


def test_matches_of_what_nobody_has_begun_are_not_stored(city: Store, backend: int) -> None:
    with pytest.raises(Moved):
        city.matches.commit(Place(TOPIC, 0, 0, 0), found(backend, 1), 1)
    assert payloads(city, backend) == []


def test_results_are_not_dated_earlier_than_those_before_them(
    city: Store, backend: int, clock: Clock
) -> None:
    began = clock.now
    place = city.matches.begin(TOPIC)[0]
    _, place = city.matches.commit(place, found(backend, 1), 1)
    clock.now -= 1000
    (committed,), _ = city.matches.commit(place, found(backend, 2), 2)
    assert committed.at == began


@pytest.mark.parametrize("answer_is_lost", [True, False])
def test_a_commit_whose_answer_is_lost_happens_once_and_is_told(
    server: DatabaseServer, network: BrokenNetwork, clock: Clock, *, answer_is_lost: bool
) -> None:
    with Store.open(network.through(server.fresh()), clock=clock) as store:
        furnish(store)
        backend = subscribed(store)
        _, place = store.matches.commit(store.matches.begin(TOPIC)[0], found(backend, 1), 1)
        network.cut_at(b"COMMIT", answer_is_lost=answer_is_lost)
        (committed,), place = store.matches.commit(place, found(backend, 2, 3), 3)
        assert network.cuts == 1
        assert (committed.positions, committed.payloads) == ([2, 3], [b"2", b"3"])
        assert committed.sequence == store.sequence()
        assert payloads(store, backend) == [b"1", b"2", b"3"]
        assert store.matches.places(TOPIC) == {0: place}


def test_matches_do_not_wait_for_the_transaction_of_somebody_else(
    server: DatabaseServer, clock: Clock
) -> None:
    with Store.open(server.fresh(), clock=clock) as store:
        furnish(store)
        backend = subscribed(store)
        place = store.matches.begin(TOPIC)[0]
        inside, go_on = threading.Event(), threading.Event()

        def wait(_: object) -> None:
            inside.set()
            assert go_on.wait(30)

        holding = threading.Thread(target=lambda: store._database.write(wait))
        holding.start()
        assert inside.wait(30)
        try:
            store.matches.commit(place, found(backend, 1), 1)
        finally:
            go_on.set()
            holding.join()
        assert payloads(store, backend) == [b"1"]


def test_who_is_frozen_in_a_transaction_keeps_nobody_waiting_for_long(
    server: DatabaseServer, clock: Clock
) -> None:
    with Store.open(server.fresh(), clock=clock, lease_s=1.0) as store:
        furnish(store)
        backend = subscribed(store)
        place = store.matches.begin(TOPIC)[0]
        inside, tries = threading.Event(), 0

        def freeze(write: SharedWrite) -> None:
            nonlocal tries
            tries += 1
            backends_of(write, [backend])
            inside.set()
            if tries == 1:
                time.sleep(4)

        frozen = threading.Thread(target=lambda: store.matches._shared.write(freeze))
        frozen.start()
        assert inside.wait(30)
        began = time.monotonic()
        store.runs.commit_run(Run("alerts", "run", 1.0, 2.0), [(backend, b"run")])
        assert time.monotonic() - began < 3.5
        frozen.join()
        assert tries == 2  # its session was ended
        store.matches.commit(place, found(backend, 1), 1)
        assert payloads(store, backend) == [b"run", b"1"]


@pytest.mark.timeout(240)
def test_pollers_end_with_everything_however_much_is_written_at_once(
    server: DatabaseServer, clock: Clock
) -> None:
    """Two partitions, runs, newcomers, acknowledgements and retention, for two seconds."""
    with Store.open(server.fresh(), clock=clock) as store:
        furnish(store)
        backends = [subscribed(store, str(number)) for number in range(6)]
        places = store.matches.begin(TOPIC, 2)
        ends_at, failures = time.monotonic() + 2.0, list[BaseException]()

        def repeat(work: Callable[[int, Random], object], seed: int) -> threading.Thread:
            def run() -> None:
                random, number = Random(seed), 0
                try:
                    while time.monotonic() < ends_at:
                        work(number, random)
                        number += 1
                except BaseException as error:
                    failures.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        def take(partition: int) -> Callable[[int, Random], object]:
            mine = backends[partition::2]

            def work(number: int, random: Random) -> None:
                chosen = random.choices(mine, k=random.randint(1, 150))
                matches = [
                    Match("alerts", to, 1000 * number + at, b"m") for at, to in enumerate(chosen)
                ]
                place = places[partition]
                _, places[partition] = store.matches.commit(place, matches, place.up_to + 1)

            return work

        def run(number: int, random: Random) -> None:
            rows = [(to, b"r") for to in random.choices(backends, k=random.randint(1, 150))]
            store.runs.commit_run(Run("alerts", f"run-{number}", 1.0, clock.now), rows)

        def come_and_go(number: int, random: Random) -> None:
            made, _ = store.subscriptions.subscribe(
                "bob", "alerts", {"type": str(random.randint(0, 9))}, "south"
            )
            store.subscriptions.unsubscribe(made.id)

        def keep(number: int, random: Random) -> None:
            store.results.expire(before=clock.now - 1)
            store.gaps.records_lost("reports", number, number + 1, "the disk")

        since, after = 0, 0
        heads, delivered = dict[int, int](), list[int]()

        def poll() -> None:
            nonlocal since, after
            since, news, _ = store.subscriptions.news("north", since)
            heads.update((head.backend, head.head) for head in news)
            batch = store.deliveries.read("alerts", after, 10**6)
            after = batch.upto
            delivered.extend(result.number for result in batch.results)

        writers = [
            repeat(work, seed)
            for seed, work in enumerate((take(0), take(1), run, come_and_go, keep))
        ]
        while any(writer.is_alive() for writer in writers):
            poll()
        poll()
        assert failures == []
        made = [frontend.backend for frontend in store.subscriptions.of_broker("north")[1]]
        assert heads == {backend.id: backend.head for backend in made}
        for backend in made:
            kept = store.results.read(backend.id, 0, 10**9, 10**9).results
            assert [at.position for at in kept] == list(range(1, backend.head + 1))
        assert delivered == sorted(set(delivered))
        there = [result.number for result in store.deliveries.read("alerts", 0, 10**6).results]
        assert set(there) <= set(delivered)
        assert min(place.up_to for place in places.values()) > 3
