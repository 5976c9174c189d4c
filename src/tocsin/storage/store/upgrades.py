"""The schema of a store as it is found: made, brought up to date step by step, or refused.

Whoever calls holds the claim. Where the database can change tables in transactions, all of it
happens or nothing. Where it cannot (each change of a table commits what came before it), a crash
leaves either the sign of a store that is being made, which is made anew, or the version before a
step, which is repeated: so every step must bear that.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    insert,
    inspect,
    select,
    table,
    text,
    update,
)

from tocsin.errors import SettingError
from tocsin.storage.store import schema
from tocsin.storage.store.dialect import FIELD, Dialect

_BEING_MADE = 0  # in place of a version

COUNTERS = ("sequence", "backend", "frontend", schema.RESULT_COUNTER)

_meta = schema.meta


def prepare(connection: Connection, dialect: Dialect) -> None:
    """Leave a store of SCHEMA_VERSION, or raise SettingError and leave everything as it is."""
    with connection.begin():
        version = _read_version(connection, dialect)
        if version is None:
            _meta.create(connection, checkfirst=True)
            row = {"name": "schema_version", "value": str(_BEING_MADE)}
            connection.execute(insert(_meta), row)
            version = _BEING_MADE
        if version == _BEING_MADE:
            _make(connection)
            return
        for step in range(version, schema.SCHEMA_VERSION):
            STEPS[step](connection, dialect)
            _set_version(connection, step + 1)


def is_store(connection: Connection, dialect: Dialect) -> bool:
    """Whether a store is there, of whatever version; SettingError as `prepare` raises it."""
    with connection.begin():
        return _read_version(connection, dialect) is not None


def _make(connection: Connection) -> None:
    """Nothing was stored before the store had a version, so what a crash left is no loss."""
    others = [table for table in schema.metadata.sorted_tables if table is not _meta]
    schema.metadata.drop_all(connection, tables=others)
    schema.metadata.create_all(connection, tables=others)
    counters = [{"name": name, "value": 0} for name in COUNTERS]
    connection.execute(insert(schema.counters), counters)
    connection.execute(insert(_meta), {"name": "id", "value": secrets.token_hex(16)})
    _set_version(connection, schema.SCHEMA_VERSION)


def _read_version(connection: Connection, dialect: Dialect) -> int | None:
    """The version of the store that is there; None: there is none, nor anything in its way."""
    there = set(inspect(connection).get_table_names())
    ours = set(schema.metadata.tables)
    version = None
    if _meta.name in there and _columns(connection, _meta.name) == set(_meta.c.keys()):
        query = select(_meta.c.value).where(_meta.c.name == "schema_version")
        version = connection.execute(query).scalar()
        ours.discard(_meta.name)
    if version is None and ours & there:
        raise SettingError(
            f"the store {dialect} has tables that are not Tocsin's, or that were never completed:"
            f" {', '.join(sorted(ours & there))}",
            field=FIELD,
            hint="name an empty database, or drop these tables if nobody needs them",
        )
    if version is None:
        return None
    if not version.isdigit() or int(version) > schema.SCHEMA_VERSION:
        raise SettingError(
            f"the store {dialect} has schema version {version},"
            f" this Tocsin knows {schema.SCHEMA_VERSION}",
            field=FIELD,
            hint="use a newer Tocsin, or another store",
        )
    return int(version)


def _columns(connection: Connection, name: str) -> set[str]:
    with connection.execute(select(text("*")).select_from(table(name)).limit(0)) as nothing:
        return set(nothing.keys())


def _set_version(connection: Connection, version: int) -> None:
    chosen = update(_meta).where(_meta.c.name == "schema_version")
    connection.execute(chosen.values(value=str(version)))


def _to_2(connection: Connection, dialect: Dialect) -> None:
    """Deliveries read results by numbers that we give; datasets are fed from topics."""
    if "record" not in _columns(connection, "results"):
        connection.execute(text("ALTER TABLE results ADD COLUMN record BIGINT"))
    _FEEDS_2.create(connection, checkfirst=True)
    last = connection.execute(text("SELECT max(number) FROM results")).scalar()
    _put_counter(connection, "result", last or 0)


_FEEDS_2 = Table(
    "feeds",
    MetaData(),
    Column("dataset", String(190), primary_key=True),
    Column("topic", String(190), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("done", BigInteger, nullable=False),
    Column("claimed", BigInteger, nullable=False),
    mariadb_charset="utf8mb4",
    mariadb_collate="utf8mb4_bin",
)


def _to_3(connection: Connection, dialect: Dialect) -> None:
    """Names compare by code point; ids are ours to give, so that many rows can be copied in."""
    dialect.compare_by_code_point(connection, _NAMES_3, _REFERENCES_3)
    for name in ("backend", "frontend"):
        _put_counter(connection, name, dialect.last_id(connection, f"{name}_subscriptions"))


_NAMES_3 = {
    "meta": {"name": 190, "value": 190},
    "counters": {"name": 190},
    "datasets": {"name": 190},
    "channels": {"name": 190},
    "brokers": {"name": 190},
    "backend_subscriptions": {"channel": 190, "hash": 32, "epoch": 32},
    "frontend_subscriptions": {"subscriber": 190, "broker": 190},
    "detachments": {"broker": 190},
    "results": {"id": 32},
    "runs": {"channel": 190, "run": 190},
    "dataset_files": {"dataset": 190, "path": 500},
    "dataset_ends": {"dataset": 190},
    "feeds": {"dataset": 190, "topic": 190},
}
_REFERENCES_3 = [
    ("backend_subscriptions", "channel", "channels", "name"),
    ("frontend_subscriptions", "broker", "brokers", "name"),
    ("frontend_subscriptions", "backend", "backend_subscriptions", "id"),
    ("results", "backend", "backend_subscriptions", "id"),
    ("runs", "channel", "channels", "name"),
]


def _put_counter(connection: Connection, name: str, value: int) -> None:
    connection.execute(text("DELETE FROM counters WHERE name = :name"), {"name": name})
    new = text("INSERT INTO counters (name, value) VALUES (:name, :value)")
    connection.execute(new, {"name": name, "value": value})


def _to_4(connection: Connection, dialect: Dialect) -> None:
    """How far a channel has run is a position that the store knows. Before, Spark's checkpoint
    knew it; the last run says where it stood at least."""
    columns = _columns(connection, "backend_subscriptions")
    if "since" not in columns:
        kind = "ALTER TABLE backend_subscriptions ADD COLUMN since BIGINT NOT NULL DEFAULT 0"
        connection.execute(text(kind))
    indexes = inspect(connection).get_indexes("backend_subscriptions")
    if "backend_by_since" not in {index["name"] for index in indexes}:
        on = "CREATE INDEX backend_by_since ON backend_subscriptions (channel, since)"
        connection.execute(text(on))
    if "failure" not in columns:
        kind = "LONGTEXT" if connection.dialect.name == "mariadb" else "TEXT"
        added = f"ALTER TABLE backend_subscriptions ADD COLUMN failure {kind}"
        connection.execute(text(added))
    for new in (_PROGRESS_4, _LOSSES_4):
        new.create(connection, checkfirst=True)
    newest = text(
        "SELECT channel, ends, window_end_us FROM runs"
        " WHERE number IN (SELECT max(number) FROM runs GROUP BY channel)"
    )
    for channel, ends, at_us in connection.execute(newest).all():
        connection.execute(text("DELETE FROM progress WHERE channel = :c"), {"c": channel})
        put = text("INSERT INTO progress (channel, ends, at_us) VALUES (:c, :ends, :at)")
        connection.execute(put, {"c": channel, "ends": ends, "at": at_us})


_BY_CODE_POINT: dict[str, Any] = {
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
}
_PROGRESS_4 = Table(
    "progress",
    MetaData(),
    Column("channel", schema.Name, primary_key=True),
    Column("ends", schema.LongText, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("settled", BigInteger, nullable=False, server_default="0"),
    **_BY_CODE_POINT,
)
_LOSSES_4 = Table(
    "losses",
    MetaData(),
    Column("number", schema.Id, primary_key=True),
    Column("channel", schema.Name, nullable=False),
    Column("at", Double, nullable=False),
    Column("dataset", schema.Name, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("cause", schema.LongText, nullable=False),
    Index("loss_by_channel", "channel", "number"),
    sqlite_autoincrement=True,
    **_BY_CODE_POINT,
)


def _to_5(connection: Connection, dialect: Dialect) -> None:
    """Roles, what is granted to them, and what each subscriber showed."""
    if "credentials" not in _columns(connection, "frontend_subscriptions"):
        kind = "LONGTEXT" if connection.dialect.name == "mariadb" else "TEXT"
        added = f"ALTER TABLE frontend_subscriptions ADD COLUMN credentials {kind}"
        connection.execute(text(added))
    for new in (_ROLES_5, _GRANTS_5):
        new.create(connection, checkfirst=True)


_METADATA_5 = MetaData()
_ROLES_5 = Table(
    "roles",
    _METADATA_5,
    Column("name", schema.Name, primary_key=True),
    Column("granted", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    **_BY_CODE_POINT,
)
_GRANTS_5 = Table(
    "grants",
    _METADATA_5,
    Column("role", schema.Name, ForeignKey("roles.name"), primary_key=True),
    Column("privilege", schema.Hash, primary_key=True),
    Column("name", schema.Name, primary_key=True),
    Index("grant_by_name", "name"),
    **_BY_CODE_POINT,
)


def _to_6(connection: Connection, dialect: Dialect) -> None:
    """The most that subjects may have, by role."""
    _QUOTAS_6.create(connection, checkfirst=True)


_QUOTAS_6 = Table(
    "quotas",
    MetaData(),
    Column("role", schema.Name, primary_key=True),
    Column("name", schema.Hash, primary_key=True),
    Column("size", BigInteger, nullable=False),
    **_BY_CODE_POINT,
)


def _to_7(connection: Connection, dialect: Dialect) -> None:
    """A broker's subscriptions are read by pages."""
    indexes = inspect(connection).get_indexes("frontend_subscriptions")
    if "frontend_by_number" not in {index["name"] for index in indexes}:
        on = "CREATE INDEX frontend_by_number ON frontend_subscriptions (broker, id)"
        connection.execute(text(on))


def _to_8(connection: Connection, dialect: Dialect) -> None:
    """How far matches were taken was a counter named after their topic."""
    _MATCH_PARTITIONS_8.create(connection, checkfirst=True)
    ours = ", ".join(f"'{name}'" for name in ("sequence", "backend", "frontend", "result"))
    topics = text(f"SELECT name, value FROM counters WHERE name NOT IN ({ours})")  # noqa: S608
    for topic, up_to in connection.execute(topics).all():
        row = {"topic": topic, "partition": 0, "up_to": up_to, "generation": 0}
        connection.execute(_MATCH_PARTITIONS_8.delete().where(_MATCH_PARTITIONS_8.c.topic == topic))
        connection.execute(insert(_MATCH_PARTITIONS_8), row | {"holder": "", "at": 0.0})
        connection.execute(text("DELETE FROM counters WHERE name = :topic"), {"topic": topic})


_MATCH_PARTITIONS_8 = Table(
    "match_partitions",
    MetaData(),
    Column("topic", schema.Name, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("up_to", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("holder", schema.Name, nullable=False),
    Column("at", Double, nullable=False),
    **_BY_CODE_POINT,
)


Step = Callable[[Connection, Dialect], None]

STEPS: dict[int, Step] = {1: _to_2, 2: _to_3, 3: _to_4, 4: _to_5, 5: _to_6, 6: _to_7, 7: _to_8}
"""From which version → how to reach the next. A step names tables and columns as they were then:
`schema` moves on."""
