"""All rows of a store as lines of JSON that every database gives alike and takes back.

Rows come in the order of their primary key, so that equal tables are equal texts. What belongs to
the process that has the store, and not to what it holds, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import Column, Connection, Table, TypeDecorator, delete, insert, select, update

from tocsin.errors import Damaged, SettingError
from tocsin.storage.store import schema, upgrades
from tocsin.storage.store.database import Database, Write
from tocsin.storage.store.dialect import FIELD, dialect_of

TABLES: tuple[Table, ...] = tuple(schema.metadata.sorted_tables)
"""Those that others refer to come first."""

_HOLDERS = ("writer", "lease")
_RESTORING = "restoring"
_META_OF_ITS_OWN = (*_HOLDERS, _RESTORING)
_ROWS_READ = 100  # at once; a row may have megabytes
_ROWS_WRITTEN = 1000
_BYTES_WRITTEN = 8 * 1024 * 1024
_BUSY_S = 30.0

_meta = schema.meta

Lines = Callable[[], Iterator[bytes]]
"""May be read again from the beginning."""


def kind_of(column: Column[Any]) -> type:
    """What its values are in Python."""
    kind = column.type
    return (kind.impl_instance if isinstance(kind, TypeDecorator) else kind).python_type


def shown(url: str) -> str:
    """The address as people may read it."""
    return str(dialect_of(url))


def require_unused(url: str) -> None:
    """SettingError if there is a store at the address that somebody has used."""
    dialect = dialect_of(url)
    engine = dialect.engine(_BUSY_S)
    try:
        with engine.connect() as connection:
            if not upgrades.is_store(connection, dialect):
                return
            with connection.begin():
                if _is_used(connection):
                    id = meta_value(connection, "id")
                    raise SettingError(
                        f"the store {dialect} (identity {str(id)[:8]}) is in use",
                        field=FIELD,
                        hint="name an empty database, or a file that does not exist yet",
                    )
    finally:
        engine.dispose()


@contextmanager
def snapshot(url: str) -> Iterator[Connection]:
    """One state of the store at an address, whatever is written meanwhile: nothing is claimed, and
    nobody waits for whoever reads."""
    dialect = dialect_of(url)
    engine = dialect.engine(_BUSY_S)
    try:
        with engine.connect() as connection:
            if not upgrades.is_store(connection, dialect):
                raise SettingError(
                    f"there is no store in {dialect}",
                    field=FIELD,
                    hint="name the store that the cluster runs with: --store ADDRESS",
                )
            with connection.begin():
                _require_version(connection, str(dialect))
                yield connection
    finally:
        engine.dispose()


def rows(connection: Connection, table: Table) -> Iterator[bytes]:
    """A line for each row."""
    query = select(table).order_by(*table.primary_key)
    if table is _meta:
        query = query.where(_meta.c.name.not_in(_META_OF_ITS_OWN))
    streaming = {"stream_results": True, "yield_per": _ROWS_READ}
    with connection.execute(query, execution_options=streaming) as result:
        for row in result:
            yield msgspec.json.encode(tuple(row)) + b"\n"


def meta_value(connection: Connection, name: str) -> str | None:
    value = connection.execute(select(_meta.c.value).where(_meta.c.name == name)).scalar()
    return None if value is None else str(value)


class Loading:
    """A new store takes the rows of another one, all or nothing. `token` says whose doing it is, so
    that it can be repeated, and nobody else's store is ever taken for it."""

    def __init__(self, database: Database, token: str) -> None:
        self._database = database
        self._token = token

    def load(self, lines: Mapping[str, Lines]) -> None:
        """By table. The store has to be opened anew afterwards: it has another identity."""
        self._database.write(lambda write: self._load(write, lines))

    def forget_topics(self) -> None:
        """Topics are not loaded: what was read of them says nothing of those that take their
        place."""
        read = delete(schema.match_partitions)
        self._database.write(lambda write: write.connection.execute(read) and None)

    def put_tables(self, address: str) -> None:
        """Where the Delta tables of its datasets lie now."""
        put = update(_meta).where(_meta.c.name == schema.META_TABLES).values(value=address)
        self._database.write(lambda write: write.connection.execute(put) and None)

    def _load(self, write: Write, lines: Mapping[str, Lines]) -> None:
        connection = write.connection
        if _is_used(connection) and meta_value(connection, _RESTORING) != self._token:
            raise SettingError(
                f"somebody has used the store {self._database.shown} meanwhile",
                field=FIELD,
                hint="name an empty database, or a file that does not exist yet",
            )
        for table in reversed(TABLES):
            if table is not _meta:
                connection.execute(delete(table))
        _clear_meta(connection)
        connection.execute(insert(_meta), {"name": _RESTORING, "value": self._token})
        for table in TABLES:
            decode = _decoder(table)
            for batch in _batches(lines[table.name]()):
                write.insert_many(table, tuple(table.c.keys()), list(map(decode, batch)))
            write.number_on(table)


def _clear_meta(connection: Connection) -> None:
    """By the names that are there: who renews the lease meanwhile must not have to wait."""
    names = set(connection.execute(select(_meta.c.name)).scalars()) - set(_HOLDERS)
    connection.execute(delete(_meta).where(_meta.c.name.in_(names)))


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size_bytes = 0
    for line in lines:
        batch.append(line)
        size_bytes += len(line)
        if len(batch) >= _ROWS_WRITTEN or size_bytes >= _BYTES_WRITTEN:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _is_used(connection: Connection) -> bool:
    return any(
        connection.execute(select(table).limit(1)).first() is not None
        for table in TABLES
        if table not in (_meta, schema.counters)
    )


def _require_version(connection: Connection, shown: str) -> None:
    version = meta_value(connection, "schema_version")
    if version != str(schema.SCHEMA_VERSION):
        raise SettingError(
            f"the store {shown} has schema version {version}, and this Tocsin"
            f" {schema.SCHEMA_VERSION}",
            field=FIELD,
            hint="start the cluster once with this version: it brings the store up to date",
        )


def _decoder(table: Table) -> Callable[[bytes], tuple[Any, ...]]:
    types = tuple(
        kind_of(column) | None if column.nullable else kind_of(column) for column in table.c
    )
    decoder = msgspec.json.Decoder(tuple.__class_getitem__(types))

    def decode(line: bytes) -> tuple[Any, ...]:
        try:
            return decoder.decode(line)  # type: ignore[no-any-return]
        except msgspec.DecodeError as error:
            raise Damaged(f"a row of table {table.name} cannot be read: {error}") from None

    return decode
