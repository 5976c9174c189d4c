"""A store's rows as text: what is loaded from it is the same, in every database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Table, insert

from tocsin.errors import Damaged, SettingError
from tocsin.model import Channel
from tocsin.storage.store import dump, schema
from tocsin.storage.store.database import Database
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .conftest import Databases, furnish

ROWS = 40
WORDS = ("", "flood", "Flood", "flóod", "火", "a\\b\t\n\"'", "z" * 190, " blank ", "NULL", "\\N")
NUMBERS = (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63))
TIMES = (0.0, 1.5, 1763258400.123457, 0.1 + 0.2, -2.0, 1e15)
BYTES = (b"", b"{}", bytes(range(256)), b"\\x00", "火".encode())


def fill(database: Database, random: Random) -> None:
    """Some rows in each table, of every kind of value."""
    there: dict[str, list[dict[str, Any]]] = {}
    for table in dump.TABLES:
        if table not in (schema.meta, schema.counters):
            there[table.name] = [made(table, number, there, random) for number in range(ROWS)]
    there["counters"] = [{"name": "a topic", "value": 9}]

    def write(connection: Any) -> None:
        for table in dump.TABLES:
            if table.name in there:
                connection.execute(insert(table), there[table.name])

    database.write(lambda write_: write(write_.connection))


def made(table: Table, number: int, there: dict[str, Any], random: Random) -> dict[str, Any]:
    row: dict[str, Any] = {}
    unique = {column.name for index in table.indexes if index.unique for column in index.columns}
    for column in table.c:
        kind = dump.kind_of(column)
        references = [key.column for key in column.foreign_keys]
        if column.nullable and random.random() < 0.3:
            row[column.name] = None
        elif references:
            row[column.name] = there[references[0].table.name][number][references[0].name]
        elif kind is str:
            word = random.choice(WORDS)
            distinct = column.primary_key or column.unique or column.name in unique
            row[column.name] = f"{number}{word}"[:32] if distinct else word[:32]
        elif kind is int:
            counted = column.primary_key or column.name in unique
            row[column.name] = number + 1 if counted else random.choice(NUMBERS)
            if column.name == "partition":
                row[column.name] = number
        else:
            row[column.name] = random.choice(TIMES if kind is float else BYTES)
    if table is schema.frontend_subscriptions:
        row["subscriber"] = f"{number} {row['subscriber']}"
    return row


def dumped(url: str) -> dict[str, list[bytes]]:
    with dump.snapshot(url) as connection:
        return {table.name: list(dump.rows(connection, table)) for table in dump.TABLES}


def load(url: str, rows: dict[str, list[bytes]], token: str = "ours") -> None:
    def lines(name: str) -> Iterator[bytes]:
        return iter(rows[name])

    with closing(Database(url)) as database:
        given = {name: lambda name=name: lines(name) for name in rows}
        dump.Loading(database, token).load(given)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_loaded_is_what_was_dumped(databases: Databases, tmp_path: Path, seed: int) -> None:
    """From this database into SQLite and back: the text is the same each time."""
    here, between, again = databases.fresh(), f"sqlite:///{tmp_path}/s.db", databases.fresh()
    with closing(Database(here)) as database:
        fill(database, Random(seed))
    rows = dumped(here)
    assert {name for name in rows if len(rows[name]) < ROWS} == {"meta", "counters"}
    load(between, rows)
    assert dumped(between) == rows
    load(again, dumped(between))
    assert dumped(again) == rows
    load(again, rows)  # repeated
    assert dumped(again) == rows


def test_a_loaded_store_goes_on(databases: Databases) -> None:
    """The database itself gives ids that nobody has had."""
    here, there = databases.fresh(), databases.fresh()
    with Store.open(here) as store:
        furnish(store)
        for number in range(3):
            store.runs.commit_run(Run("alerts", f"run-{number}", 1.0, 2.0), [])
        id = store.id
    load(there, dumped(here))
    with closing(Database(there)) as database:
        dump.Loading(database, "ours").forget_topics()
    with Store.open(there) as store:
        assert store.id == id
        store.runs.commit_run(Run("alerts", "run-3", 1.0, 2.0), [])
        assert len(store.runs.recent_runs("alerts", 9)) == 4
        store.catalog.create_channel(Channel("new", "continuous", (), "", ("reports",), ()))


def test_a_store_in_use_is_not_loaded(databases: Databases) -> None:
    url = databases.fresh()
    dump.require_unused(url)
    with Store.open(url) as store:
        furnish(store)
    before = dumped(url)
    with pytest.raises(SettingError, match="is in use") as refused:
        dump.require_unused(url)
    assert "empty database" in str(refused.value.hint)
    with pytest.raises(SettingError, match="somebody has used"):
        load(url, before)
    assert dumped(url) == before


def test_a_row_that_cannot_be_read_leaves_nothing_half_done(databases: Databases) -> None:
    url = databases.fresh()
    rows = dumped_new(databases)
    with pytest.raises(Damaged, match="table brokers"):
        load(url, rows | {"brokers": [b'["north", 5]\n']})
    dump.require_unused(url)


def dumped_new(databases: Databases) -> dict[str, list[bytes]]:
    url = databases.fresh()
    with Store.open(url) as store:
        furnish(store)
    return dumped(url)
