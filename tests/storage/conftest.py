"""Fixtures of the store's contract suite. To add a database, add one line to STORES."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from sqlalchemy import create_engine, delete, update

from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.model import Channel, Dataset, Parameter
from tocsin.storage.store import schema
from tocsin.storage.store.store import Store

from .broken_network import BrokenNetwork

STORES = (
    "sqlite",
    "postgresql",
    "mariadb",
)
DatabaseServer = PostgreSQL | MariaDB


class Databases(Protocol):
    def fresh(self) -> str:
        """The address of a new, empty database."""

    def empty(self) -> str:
        """The address of an empty store, or of one that is not made yet."""


class SqliteFiles:
    def __init__(self, new: Callable[[], Path]) -> None:
        self._new = new

    def fresh(self) -> str:
        return f"sqlite:///{self._new()}/store.db"

    empty = fresh


class ServerDatabases:
    """One database for all tests that only need an empty store: to make a new one for each takes
    longer than the test."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._shared = server.fresh()
        self._engine = create_engine(self._shared, pool_pre_ping=True)
        Store.open(self._shared).close()

    def fresh(self) -> str:
        return self._server.fresh()

    def empty(self) -> str:
        with self._engine.begin() as connection:
            for table in reversed(schema.metadata.sorted_tables):
                if table is schema.counters:
                    connection.execute(update(table).values(value=0))
                elif table is not schema.meta:
                    connection.execute(delete(table))
        return self._shared


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session", params=STORES)
def databases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Databases:
    if request.param == "sqlite":
        return SqliteFiles(lambda: tmp_path_factory.mktemp("store"))
    return ServerDatabases(request.getfixturevalue(request.param))


@pytest.fixture(scope="session", params=[name for name in STORES if name != "sqlite"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    """For what only a database with a server can meet."""
    server: DatabaseServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def network(server: DatabaseServer) -> Iterator[BrokenNetwork]:
    network = BrokenNetwork(server.port)
    yield network
    network.close()


@pytest.fixture
def url(databases: Databases) -> str:
    return databases.empty()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    with Store.open(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def city(store: Store) -> Store:
    """A store with dataset `reports`, channels `by_type` and `alerts`, brokers `north`, `south`."""
    furnish(store)
    return store


def furnish(store: Store) -> None:
    store.catalog.create_dataset(Dataset("reports", ()))
    for name in ("by_type", "alerts"):
        store.catalog.create_channel(
            Channel(
                name=name,
                kind="continuous",
                parameters=(Parameter("type", "STRING"),),
                query="SELECT * FROM NEW reports WHERE type = :type",
                reads=("reports",),
                new=("reports",),
            )
        )
    store.catalog.put_broker("north", "http://north")
    store.catalog.put_broker("south", "http://south")


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
