"""Names of datasets, channels, brokers and roles: are they there, and what to say if not."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Table, select

from tocsin.errors import InvalidInput, NotFound
from tocsin.storage.store import schema
from tocsin.storage.store.subscription_rows import chunks

_TABLES = {
    "dataset": schema.datasets,
    "channel": schema.channels,
    "broker": schema.brokers,
    "role": schema.roles,
}


def missing(kind: str, name: str) -> NotFound:
    return NotFound(
        f"there is no {kind} {name}", field=kind, hint=f"SHOW {kind.upper()}S lists them"
    )


def exists(connection: Connection, kind: str, name: str) -> bool:
    table: Table = _TABLES[kind]
    return connection.execute(select(table.c.name).where(table.c.name == name)).first() is not None


def those_there(connection: Connection, kind: str, names: Iterable[str]) -> set[str]:
    """Of these names."""
    table: Table = _TABLES[kind]
    there: set[str] = set()
    for chunk in chunks(list(names)):
        there.update(connection.scalars(select(table.c.name).where(table.c.name.in_(chunk))))
    return there


def require(connection: Connection, kind: str, name: str) -> None:
    if not exists(connection, kind, name):
        raise missing(kind, name)


def refuse_unstorable(name: str, field: str = "name") -> None:
    """No database index holds names of any length, and not every database every character."""
    if not schema.storable(name):
        raise InvalidInput(
            f"a {field} cannot have NUL (U+0000) or an unpaired surrogate",
            field=field,
            hint="leave it out",
        )
    if not 0 < len(name) <= schema.NAME_CHARACTERS:
        raise InvalidInput(
            f"a {field} has 1 to {schema.NAME_CHARACTERS} characters, this one {len(name)}",
            field=field,
            hint="choose a shorter one" if name else "give one",
        )
