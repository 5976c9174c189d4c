"""One cluster at a time: a second one is refused, and one that was replaced writes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from threading import Event

import pytest
from sqlalchemy import create_engine, select, text

from tocsin.errors import Conflict, NotLeading, TocsinError
from tocsin.storage.store import schema
from tocsin.storage.store.store import Store

from .broken_network import BrokenNetwork
from .conftest import Databases, DatabaseServer

HOLDER = """
import sys, time
from tocsin.storage.store.store import Store

store = Store.open(sys.argv[1])
store.catalog.put_broker("north", "http://north")
print("mine", flush=True)
time.sleep(600)
"""


def test_a_second_cluster_is_refused_and_told_who_has_the_store(url: str, store: Store) -> None:
    with pytest.raises(Conflict, match=r"another cluster uses the store.*process \d+ on") as told:
        Store.open(url, busy_timeout_s=0.01)
    assert told.value.field == "store"
    store.catalog.put_broker("north", "http://north")  # the first is not disturbed


def test_stores_beside_each_other_do_not_refuse_each_other(databases: Databases) -> None:
    with Store.open(databases.fresh()) as one, Store.open(databases.fresh()) as other:
        assert one.id != other.id


def test_a_store_that_was_closed_is_free_at_once(url: str) -> None:
    for _ in range(3):
        Store.open(url, busy_timeout_s=0.01).close()


@pytest.mark.processes
def test_the_store_of_a_killed_cluster_is_free(url: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(Conflict, match=f"process {holder.pid} on"):
            Store.open(url, busy_timeout_s=0.01)
    finally:
        holder.kill()
        holder.wait()
    assert holder.stdout is not None
    holder.stdout.close()
    with Store.open(url, busy_timeout_s=60.0) as store:
        assert [broker.name for broker in store.catalog.brokers()] == ["north"]


SESSIONS = {  # those of others, and how to end one
    "postgresql": (
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "SELECT pg_terminate_backend(:number, 60000)",
    ),
    "mariadb": (
        "SELECT id FROM information_schema.processlist"
        " WHERE db = DATABASE() AND id <> CONNECTION_ID()",
        "KILL :number",
    ),
}


def end_other_sessions(url: str) -> None:
    """As a server does with a client that it believes to be dead."""
    engine = create_engine(url)
    with engine.begin() as connection:
        others, end = SESSIONS[connection.dialect.name]
        for number in connection.execute(text(others)).scalars():
            connection.execute(text(end), {"number": number})
    engine.dispose()


@pytest.mark.parametrize("writes", [True, False])
def test_a_claim_that_was_lost_is_taken_again_before_the_next_write_or_read(
    server: DatabaseServer, writes: bool
) -> None:
    url = server.fresh()
    with Store.open(url, patience_s=120.0) as store:
        end_other_sessions(url)
        if writes:
            store.catalog.put_broker("north", "http://north")
        else:
            assert store.catalog.brokers() == []
        with pytest.raises(Conflict):
            Store.open(url, busy_timeout_s=0.01)


@pytest.mark.parametrize("notices_by", ["reading", "writing"])
def test_a_cluster_that_was_replaced_writes_nothing_and_says_so(
    server: DatabaseServer, notices_by: str
) -> None:
    url = server.fresh()
    told: list[TocsinError] = []
    ended = Event()

    def end(error: TocsinError) -> None:
        told.append(error)
        ended.set()

    with Store.open(url, patience_s=120.0) as old:
        old.on_end(end)
        end_other_sessions(url)
        with Store.open(url, busy_timeout_s=60.0) as new:
            new.catalog.put_broker("north", "http://north")
            call: Callable[[], object] = old.catalog.brokers
            if notices_by == "writing":
                call = partial(old.catalog.put_broker, "south", "http://south")
            with pytest.raises(NotLeading, match=r"another cluster has taken over.*process \d+ on"):
                call()
            assert ended.wait(60)
            assert [type(one) for one in told] == [NotLeading]
            with pytest.raises(NotLeading):
                old.catalog.put_broker("south", "http://south")
            new.catalog.put_broker("east", "http://east")
            assert [broker.name for broker in new.catalog.brokers()] == ["east", "north"]


def test_a_writer_whose_seal_was_replaced_finds_out_before_it_writes(
    url: str, store: Store
) -> None:
    """Should ever two hold the claim, on servers that do not share it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        other = schema.meta.update().where(schema.meta.c.name == "writer")
        connection.execute(other.values(value="7 0123 process 1 on elsewhere"))
    with pytest.raises(NotLeading, match=r"taken over.*process 1 on elsewhere"):
        store.catalog.put_broker("north", "http://north")
    with engine.begin() as connection:
        assert connection.execute(select(schema.brokers)).all() == []
    engine.dispose()


def test_a_connection_that_the_server_still_believes_in_is_ended_by_its_former_owner(
    server: DatabaseServer, network: BrokenNetwork
) -> None:
    """As after a router has forgotten it: the server would believe in it for hours."""
    with Store.open(network.through(server.fresh()), patience_s=60.0) as store:
        network.vanish()
        store.catalog.put_broker("north", "http://north")
        assert [broker.name for broker in store.catalog.brokers()] == ["north"]
