"""A host that is lost has the store for seconds only, and writes nothing when it comes back."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from tocsin.errors import Conflict, NotLeading, TocsinError, Unavailable
from tocsin.storage.store.lease import Terms, Watch
from tocsin.storage.store.places import is_gone, own_place
from tocsin.storage.store.store import Store

from .broken_network import BrokenNetwork
from .conftest import DatabaseServer, until

BOUND_S = 10.0
WRITER = """
import sys, threading, time
from tocsin.errors import TocsinError
from tocsin.storage.store.store import Store

store = Store.open(sys.argv[1])
ended = threading.Event()
store.on_end(lambda error: (print(error, flush=True), ended.set()))
number = 0
while not ended.is_set():
    try:
        store.catalog.put_broker("old", f"http://old/{number}")
    except TocsinError:
        ended.wait(1)
    number += 1
    if number == 10:
        print("writing", flush=True)
store.close()
sys.exit(2)
"""


@contextmanager
def writer_process(url: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def urls(store: Store) -> dict[str, str]:
    return {broker.name: broker.url for broker in store.catalog.brokers()}


@pytest.mark.processes
@pytest.mark.timeout(120)
def test_a_frozen_cluster_loses_the_store_in_seconds_and_writes_nothing_when_it_wakes(
    server: DatabaseServer,
) -> None:
    url = server.fresh()
    with writer_process(url) as old:
        assert old.stdout is not None
        old.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with Store.open(url) as new:
            assert time.monotonic() - began < BOUND_S
            new.catalog.put_broker("new", "http://new")
            before = urls(new)
            old.send_signal(signal.SIGCONT)
            assert old.wait(60) == 2
            assert "another cluster has taken over the store" in old.stdout.read()
            new.catalog.put_broker("new", "http://new/2")
            assert urls(new) == before | {"new": "http://new/2"}


@pytest.mark.timeout(120)
def test_a_cluster_behind_a_silent_network_loses_the_store_and_ends_when_it_hears_again(
    server: DatabaseServer, network: BrokenNetwork
) -> None:
    url = server.fresh()
    told: list[TocsinError] = []
    ended = Event()
    old = Store.open(network.through(url), patience_s=60.0, lease_s=2.0)

    def end(error: TocsinError) -> None:
        told.append(error)
        ended.set()

    old.on_end(end)
    old.catalog.put_broker("old", "http://old/1")
    network.stall()
    refused: list[TocsinError] = []

    def write() -> None:
        try:
            old.catalog.put_broker("old", "http://old/2")
        except TocsinError as error:
            refused.append(error)

    writing = Thread(target=write)
    writing.start()  # its statements wait in the network
    began = time.monotonic()
    with Store.open(url, lease_s=2.0) as new:
        assert time.monotonic() - began < BOUND_S
        assert not old.lease.held
        with pytest.raises(Unavailable, match="lease"):
            old.lease.require()
        assert new.lease.number == old.lease.number + 1
        new.catalog.put_broker("new", "http://new")
        network.flow()
        assert ended.wait(60)
        writing.join(60)
        assert [type(error) for error in (*told, *refused)] == [NotLeading, NotLeading]
        assert urls(new) == {"old": "http://old/1", "new": "http://new"}
        with pytest.raises(Unavailable, match="another cluster has taken over"):
            old.lease.confirm()
        old.close()
        assert new.lease.held
        new.lease.confirm()


@pytest.mark.timeout(120)
def test_a_store_whose_server_fell_silent_is_closed_in_seconds(
    server: DatabaseServer, network: BrokenNetwork
) -> None:
    store = Store.open(network.through(server.fresh()), lease_s=1.0)
    network.stall()
    writing = Thread(target=_try_to_write, args=(store,))
    writing.start()
    until(lambda: not store.lease.held)
    began = time.monotonic()
    store.close()
    assert time.monotonic() - began < 30
    writing.join(30)
    assert not writing.is_alive()


def _try_to_write(store: Store) -> None:
    with pytest.raises(TocsinError):
        store.catalog.put_broker("old", "http://old")


def test_a_cluster_that_is_busy_with_one_long_commit_is_not_taken_for_lost(
    server: DatabaseServer,
) -> None:
    url = server.fresh()
    with Store.open(url, lease_s=1.0) as store:
        database, began, done = store._database, Event(), Event()

        def commit_slowly() -> None:
            def work(_: object) -> None:
                began.set()
                assert done.wait(60)

            database.write(work)

        committing = Thread(target=commit_slowly)
        committing.start()
        assert began.wait(60)
        with pytest.raises(Conflict, match="another cluster uses the store"):
            Store.open(url, busy_timeout_s=3.0)
        done.set()
        committing.join(60)
        assert store.lease.held
        store.catalog.put_broker("north", "http://north")


def test_the_number_of_the_lease_grows_by_one_with_each_that_takes_the_store(
    server: DatabaseServer,
) -> None:
    url = server.fresh()
    numbers = []
    for _ in range(3):
        with Store.open(url, busy_timeout_s=0.01) as store:
            numbers.append(store.lease.number)
    assert numbers == [1, 2, 3]


def test_a_former_lease_is_outlasted_if_only_its_session_was_lost(server: DatabaseServer) -> None:
    """Its holder may live, and act outside the store for as long as it has a lease."""
    url = server.fresh()
    with Store.open(url, lease_s=2.0) as store:
        terms = Terms(store.lease.number, 7, 2.0, "another-boot:1:1:1")
    engine = create_engine(url)
    with engine.begin() as connection:
        put = text("UPDATE meta SET value = :terms WHERE name = 'lease'")
        connection.execute(put, {"terms": terms.encode()})
    engine.dispose()
    began = time.monotonic()
    with Store.open(url, busy_timeout_s=0.01):
        assert time.monotonic() - began >= 2.0


def test_a_lease_whose_renewal_got_no_answer_is_still_held(
    server: DatabaseServer, network: BrokenNetwork
) -> None:
    with Store.open(network.through(server.fresh()), lease_s=2.0) as store:
        network.cut_at(b"UPDATE meta", answer_is_lost=True)
        until(lambda: network.cuts)
        store.lease.confirm()
        assert store.lease.held


def test_a_store_in_a_file_is_held_until_it_is_closed(tmp_path: Path) -> None:
    """The system's lock on the file ends with the process, and not before."""
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        store.lease.confirm()
        store.lease.require()
    with pytest.raises(Unavailable):
        store.lease.require()


def test_a_process_that_ended_is_known_to_be_gone_and_one_that_is_frozen_is_not() -> None:
    assert not is_gone(own_place())
    script = "from tocsin.storage.store.places import own_place; print(own_place(), flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{script}; input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    place = process.stdout.readline().strip()
    process.send_signal(signal.SIGSTOP)
    assert not is_gone(place)
    process.kill()
    process.communicate()
    assert is_gone(place)
    assert not is_gone(f"another{place}")  # of another machine nothing is known
    assert not is_gone("")


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=60),
)
def test_nobody_is_taken_for_lost_who_renewed_within_the_length_of_the_lease(
    steps: list[tuple[int, bool, bool]],
) -> None:
    """Looks and renewals come in any order and at any time."""
    now, renewed_at, terms = 0.0, 0.0, Terms(1, 0, 5.0, "there")
    watch = Watch(lambda: now)
    for pause_s, renews, looks in steps:
        now += pause_s
        if renews:
            renewed_at, terms = now, terms._replace(beat=terms.beat + 1)
        if looks and watch.lapsed(terms):
            assert now - renewed_at >= 5.0
    looking_from = now
    watch.lapsed(terms)
    now += 5.0
    assert watch.lapsed(terms)
    assert now - looking_from <= 5.0


@pytest.mark.parametrize("terms", [None, Terms(3, 9, 5.0, "")])
def test_who_keeps_no_lease_or_has_given_it_back_is_never_taken_for_lost(
    terms: Terms | None,
) -> None:
    now = 0.0
    watch = Watch(lambda: now)
    assert not watch.lapsed(terms)
    now = 1e9
    assert not watch.lapsed(terms)


@pytest.mark.parametrize(
    "terms",
    [
        Terms(3, 9, 5.0, ""),
        Terms(1, 0, 0.25, "boot:1:2:3"),
        Terms(2, 5, 5.0, "boot:1:2:3", "https://host:7400"),
    ],
)
def test_terms_are_read_as_they_were_written(terms: Terms) -> None:
    assert Terms.decode(terms.encode()) == terms
