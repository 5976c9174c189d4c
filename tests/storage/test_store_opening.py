"""Opening, closing and refusing: what a store says when it cannot serve."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection

from tocsin.errors import SettingError, Unavailable
from tocsin.model import Dataset
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write
from tocsin.storage.store.store import Store

from .conftest import DatabaseServer


def test_id_is_made_once_and_survives_reopening(url: str) -> None:
    with Store.open(url) as first:
        made = first.id
    with Store.open(url) as second:
        assert second.id == made
    assert len(made) == 32


def test_two_stores_have_different_ids(tmp_path: Path) -> None:
    with (
        Store.open(f"sqlite:///{tmp_path}/a.db") as one,
        Store.open(f"sqlite:///{tmp_path}/b.db") as other,
    ):
        assert one.id != other.id


def test_what_was_written_is_there_after_reopening(url: str) -> None:
    with Store.open(url) as store:
        store.catalog.create_dataset(Dataset("reports", ()))
    with Store.open(url) as store:
        assert store.catalog.dataset("reports").name == "reports"


def test_a_closed_store_is_unavailable(store: Store) -> None:
    store.close()
    with pytest.raises(Unavailable, match="closed"):
        store.catalog.datasets()
    with pytest.raises(Unavailable, match="closed"):
        store.catalog.put_broker("north", "http://north")


@pytest.mark.parametrize("bad", ["", "store.db", "oracle+nonsense://x", "nosuch://x"])
def test_an_address_that_is_none_is_a_setting_error(bad: str) -> None:
    with pytest.raises(SettingError, match="not the address of a store"):
        Store.open(bad)


@pytest.mark.parametrize("bad", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_in_memory_is_refused_because_it_would_forget(bad: str) -> None:
    with pytest.raises(SettingError, match="memory"):
        Store.open(bad)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="nowhere does not exist"):
        Store.open(f"sqlite:///{tmp_path}/nowhere/store.db")


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at. " * 100)
    before = path.read_bytes()
    with pytest.raises(SettingError, match="not a database"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_directory_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="unable to open"):
        Store.open(f"sqlite:///{tmp_path}")


def test_a_store_locked_by_another_process_is_unavailable_and_then_recovers(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store.db", busy_timeout_s=0.01) as store:
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            store.catalog.put_broker("north", "http://north")
        assert store.catalog.brokers() == []  # reading needs no lock
        other.execute("ROLLBACK")
        other.close()
        store.catalog.put_broker("north", "http://north")
        assert [broker.name for broker in store.catalog.brokers()] == ["north"]


def test_a_full_disk_is_unavailable_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/store.db")
    store = Store(database)

    def fill(write: Write) -> None:
        pages = write.connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        write.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 1}")

    database.write(fill)
    with pytest.raises(Unavailable, match="full"):
        store.catalog.put_broker("north", "http://" + "x" * 100_000)
    assert store.catalog.brokers() == []
    store.catalog.put_broker("north", "http://north")
    store.close()


def test_sqlite_commits_are_durable_and_references_are_checked(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/store.db")
    asked = ("journal_mode", "synchronous", "foreign_keys")

    def told(connection: Connection) -> list[object]:
        return [connection.exec_driver_sql(f"PRAGMA {one}").scalar_one() for one in asked]

    assert database.read(told) == ["wal", 2, 1]
    assert database.write(lambda write: told(write.connection)) == ["wal", 2, 1]
    database.close()


def test_a_server_that_is_set_to_forget_at_a_power_cut_is_told(
    server: DatabaseServer, tmp_path: Path
) -> None:
    """As the servers of tests are."""
    with Store.open(server.fresh()) as store:
        assert store.risk in (
            "fsync is off: set fsync=on",
            "innodb_flush_log_at_trx_commit is 2: set innodb_flush_log_at_trx_commit=1",
        )
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        assert store.risk is None


def test_a_failed_transaction_leaves_no_trace(url: str) -> None:
    database = Database(url)
    store = Store(database)

    def fail_at_the_end(write: Write) -> None:
        assert write.sequence() == 1
        row = {"name": "north", "url": "u", "created_at": 0.0}
        write.connection.execute(schema.brokers.insert(), row)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.write(fail_at_the_end)
    assert store.catalog.brokers() == []
    assert database.write(Write.sequence) == 1
    store.close()
