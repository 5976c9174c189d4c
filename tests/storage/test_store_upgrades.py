"""Schema versions: an older store is upgraded, a newer one refused, none is guessed at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, inspect, text

from tocsin.errors import QuotaExceeded, SettingError
from tocsin.model import EVERYBODY, Channel, Dataset, Quota
from tocsin.storage.store import schema, upgrades
from tocsin.storage.store.grants import Credentials
from tocsin.storage.store.incarnation import Seen
from tocsin.storage.store.progress import Progress
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .conftest import Databases, furnish

FLOOD = {"type": "flood"}
NOBODY = Credentials()
VERSION_1 = Path(__file__).parent / "version_1"
# What a cluster of version 1 left there. The newest subscriptions have ended.
DATA = """
INSERT INTO meta (name, value) VALUES ('schema_version', '1'), ('id', 'the-old-id');
INSERT INTO counters (name, value) VALUES ('sequence', 9);
INSERT INTO datasets (name, body) VALUES ('reports', '{"name":"reports","columns":[]}');
INSERT INTO channels (name, body) VALUES ('by_type', '{"name":"by_type","kind":"continuous",
"parameters":[{"name":"type","type":"STRING"}],"query":"SELECT 1","reads":["reports"],"new":[]}');
INSERT INTO brokers (name, url, created_at) VALUES ('north', 'http://north', 1.5);
INSERT INTO backend_subscriptions (channel, arguments, hash, epoch, head, floor, sequence) VALUES
('by_type', '{"type":"flood"}', '51d95a7144a099386ee2093a3083d90d', 'epoch-1', 2, 0, 8),
('by_type', '{"type":"fire"}', 'of-fire', 'epoch-2', 0, 0, 3);
INSERT INTO frontend_subscriptions (subscriber, broker, backend, marker, sequence) VALUES
('alice', 'north', 1, 1, 2), ('bob', 'north', 1, 0, 3), ('carol', 'north', 2, 0, 4);
INSERT INTO runs (channel, run, started_at, ended_at, window_start_us, window_end_us, ends, "rows")
VALUES ('by_type', 'batch-1', 1.0, 2.5, 0, 7, '{"reports":3}', 2);
DELETE FROM frontend_subscriptions WHERE subscriber = 'carol';
DELETE FROM backend_subscriptions WHERE hash = 'of-fire';
"""


class Killed(BaseException):
    """What happens to a process happens to it between two statements."""


# Threads of the process end as it does, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@contextmanager
def killed_after(statements: int) -> Iterator[None]:
    left = statements

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    event.listen(Engine, "before_cursor_execute", count)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", count)


LEASE_S = 0.3
"""Who is killed here lives on as far as others can see: they wait until the lease is over."""


def open_at_last(url: str, step: int) -> None:
    """Open the store again and again, killed a little later each time."""
    statements = 0
    while True:
        try:
            with killed_after(statements):
                Store.open(url, lease_s=LEASE_S).close()
        except Killed:
            statements += step
        else:
            assert statements >= 2 * step
            return


def run(url: str, *statements: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        if connection.dialect.name == "mariadb":
            connection.execute(text("SET sql_mode = 'ANSI_QUOTES'"))
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def of_version_1(url: str) -> str:
    file = VERSION_1 / f"{url.partition('+')[0].partition(':')[0]}.sql"
    schema_then = file.read_text().replace("`", '"')
    run(url, *(one for one in (schema_then + DATA).split(";\n") if one.strip()))
    engine = create_engine(url)
    with engine.begin() as connection:
        row = "INSERT INTO results (id, backend, position, created_at, payload)"
        for position, payload in enumerate((b"{}", b'{"a":1}'), 1):
            values = text(row + " VALUES (:id, 1, :position, 1.5, :payload)")
            given = {"id": f"r{position}", "position": position, "payload": payload}
            connection.execute(values, given)
    engine.dispose()
    return url


def described(url: str) -> dict[str, Any]:
    """Everything that a database knows of the store's tables."""
    engine = create_engine(url)
    found = inspect(engine)
    told = {
        table: {
            "columns": {
                column["name"]: (str(column["type"]), _collation(column), column["nullable"])
                for column in found.get_columns(table)
            },
            "key": found.get_pk_constraint(table)["constrained_columns"],
            "references": sorted(
                (key["constrained_columns"], key["referred_table"], key["referred_columns"])
                for key in found.get_foreign_keys(table)
            ),
            "indexes": sorted(
                (index["column_names"], bool(index["unique"])) for index in found.get_indexes(table)
            ),
        }
        for table in schema.metadata.tables
    }
    engine.dispose()
    return told


def _collation(column: Any) -> str | None:
    return getattr(column["type"], "collation", None)


def version(url: str) -> int:
    engine = create_engine(url)
    with engine.connect() as connection:
        asked = "SELECT value FROM meta WHERE name = 'schema_version'"
        found = connection.execute(text(asked)).scalar_one()
    engine.dispose()
    return int(found)


def check(store: Store) -> None:
    """What was stored is there, and the store works on from it."""
    assert store.id == "the-old-id"
    assert store.sequence() == 9
    assert store.catalog.dataset("reports") == Dataset("reports", ())
    assert isinstance(store.catalog.channel("by_type"), Channel)
    alice, bob = store.subscriptions.all_()
    assert (alice.id, alice.marker, alice.backend.epoch, alice.backend.head) == (1, 1, "epoch-1", 2)
    assert bob.id == 2
    assert [result.payload for result in store.results.read(1, 0, 9, 9).results] == [
        b"{}",
        b'{"a":1}',
    ]
    last = store.runs.last_run("by_type")
    assert last is not None
    assert (last.run, last.ends) == ("batch-1", {"reports": 3})
    assert store.progress.of("by_type") == Progress({"reports": 3}, 7)
    same, created = store.subscriptions.subscribe("dave", "by_type", FLOOD, "north")
    assert (same.backend.id, created) == (1, False)
    assert same.id > 3  # that was carol's: ids are not used again
    other, created = store.subscriptions.subscribe("dave", "by_type", {"type": "fire"}, "north")
    assert created
    assert other.backend.id > 2
    rows = [(1, b"new"), (other.backend.id, b"new")]
    done = store.runs.commit_run(Run("by_type", "batch-2", 1, 2), rows)
    assert done is not None
    assert [head.head for head in done.heads] == [3, 1]
    store.quotas.set_size(Quota(EVERYBODY, "subscriptions", 2))
    with pytest.raises(QuotaExceeded):
        store.subscriptions.subscribe("dave", "by_type", {"type": "storm"}, None, shown=NOBODY)


def test_a_store_of_version_1_is_upgraded_with_all_it_holds(databases: Databases) -> None:
    old, new = of_version_1(databases.fresh()), databases.fresh()
    with Store.open(old) as store:
        check(store)
    with Store.open(new) as store:
        furnish(store)
    assert version(old) == version(new) == schema.SCHEMA_VERSION
    assert described(old) == described(new)


def test_an_upgrade_that_was_cut_short_is_completed(databases: Databases) -> None:
    url = of_version_1(databases.fresh())
    open_at_last(url, step=9)
    assert version(url) == schema.SCHEMA_VERSION
    with Store.open(url) as store:
        check(store)


def test_a_store_whose_making_was_cut_short_is_made_whole(databases: Databases) -> None:
    url = databases.fresh()
    open_at_last(url, step=13)
    whole = databases.fresh()
    for each in (url, whole):
        with Store.open(each) as store:
            furnish(store)
    assert described(url) == described(whole)


def test_a_newer_store_is_refused_and_left_alone(databases: Databases) -> None:
    url = databases.fresh()
    Store.open(url).close()
    newer = schema.SCHEMA_VERSION + 1
    run(url, f"UPDATE meta SET value = '{newer}' WHERE name = 'schema_version'")  # noqa: S608
    with pytest.raises(SettingError, match=rf"version {newer}.*knows {newer - 1}") as told:
        Store.open(url)
    assert told.value.field == "store"
    assert told.value.hint == "use a newer Tocsin, or another store"
    assert version(url) == newer


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE runs (a INTEGER)",
        "CREATE TABLE meta (a INTEGER)",
        "CREATE TABLE meta (name VARCHAR(190), value VARCHAR(190), more INTEGER)",
    ],
)
def test_tables_of_somebody_else_are_refused_and_left_alone(
    databases: Databases, theirs: str
) -> None:
    url = databases.fresh()
    run(url, theirs)
    name = theirs.split()[2]
    with pytest.raises(SettingError, match=f"tables that are not Tocsin's.*: {name}") as told:
        Store.open(url)
    assert told.value.field == "store"
    engine = create_engine(url)
    assert inspect(engine).get_table_names() == [name]
    engine.dispose()


def test_what_version_1_never_completed_is_refused(databases: Databases) -> None:
    """It did not say that it had begun, so nobody knows what the tables are."""
    url = databases.fresh()
    run(
        url,
        "CREATE TABLE meta (name VARCHAR(190), value VARCHAR(190))",
        "CREATE TABLE runs (a INT)",
    )
    with pytest.raises(SettingError, match="never completed: runs"):
        Store.open(url)


def test_there_is_a_step_from_every_older_version() -> None:
    assert sorted(upgrades.STEPS) == list(range(1, schema.SCHEMA_VERSION))


def test_how_far_matches_were_taken_is_still_known_after_the_upgrade(
    databases: Databases,
) -> None:
    url = databases.fresh()
    with Store.open(url) as store:
        counters = store.incarnation.seen().counters
    run(
        url,
        "DROP TABLE match_partitions",
        "INSERT INTO counters (name, value) VALUES ('alerts.matches', 4711)",
        "UPDATE meta SET value = '7' WHERE name = 'schema_version'",
    )
    with Store.open(url) as store:
        assert store.matches.read_up_to("alerts.matches") == 4711
        assert store.incarnation.seen().counters == counters


def test_a_note_of_an_older_version_does_not_make_the_store_look_restored(url: str) -> None:
    with Store.open(url) as store:
        seen = store.incarnation.seen()
        older = Seen(seen.store, 0, seen.counters | {"alerts.matches": 4711})
        assert not store.follow(older)
        assert store.follow(Seen(seen.store, 0, older.counters | {"sequence": 10**6}))
