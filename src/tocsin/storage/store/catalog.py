"""Datasets, channels and brokers by name. Knows no SQL text of channels and runs nothing."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Table, delete, func, insert, select, update

from tocsin.errors import Conflict
from tocsin.model import Broker, Channel, Dataset, filters_of
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.grants import Grants
from tocsin.storage.store.names import exists, missing, refuse_unstorable, require

_SHOWN = 5  # how many dependents an error names

_Named = TypeVar("_Named", Dataset, Channel)


class Catalog:
    def __init__(self, database: Database, grants: Grants) -> None:
        self._database = database
        self._grants = grants
        # Every publication asks for its dataset. We are the only writer, so that what was read
        # stays true until the next drop; what is missing is not remembered.
        self._known: dict[tuple[str, str], Any] = {}
        self._drops = 0

    # Datasets

    def create_dataset(self, dataset: Dataset) -> Dataset:
        """Store it; a `created_at` of 0 becomes now. A routed one brings the channel of its filters
        along."""
        return self._create(schema.datasets, "dataset", dataset)

    def knows_dataset(self, name: str) -> bool:
        """Whether `dataset` answers without asking the database."""
        return (schema.datasets.name, name) in self._known

    def dataset(self, name: str) -> Dataset:
        return self._get(schema.datasets, Dataset, name)

    @reads
    def datasets(self, connection: Connection) -> list[Dataset]:
        return _all(connection, schema.datasets, Dataset)

    @writes
    def drop_dataset(self, write: Write, name: str) -> None:
        dataset = _dataset(write.connection, name)
        channels = _all(write.connection, schema.channels, Channel)
        own = filters_of(dataset).name
        readers = [
            channel.name
            for channel in channels
            if name in (*channel.reads, *channel.new) and channel.name != own
        ]
        if readers:
            raise Conflict(
                f"dataset {name} is read by {_listed('channel', readers)}",
                field="name",
                hint="drop what reads it first",
            )
        if dataset.routed:
            _drop_channel(write.connection, own, f"dataset {name}")
        write.connection.execute(delete(schema.datasets).where(schema.datasets.c.name == name))
        self._grants.drop_object(write, "dataset", name)
        write.after_commit.append(self._forget)

    # Channels

    def create_channel(self, channel: Channel) -> Channel:
        """Store it; every dataset it reads must be there, so that none can vanish meanwhile."""
        return self._create(schema.channels, "channel", channel, needs=channel.reads + channel.new)

    def knows_channel(self, name: str) -> bool:
        """Whether `channel` answers without asking the database."""
        return (schema.channels.name, name) in self._known

    def channel(self, name: str) -> Channel:
        return self._get(schema.channels, Channel, name)

    @reads
    def channels(self, connection: Connection) -> list[Channel]:
        """Those that were made by statements: a dataset's filters are its own affair."""
        channels = _all(connection, schema.channels, Channel)
        return [channel for channel in channels if channel.kind != "filter"]

    @writes
    def drop_channel(self, write: Write, name: str) -> None:
        """Remove it and the memory of its runs."""
        require(write.connection, "channel", name)
        _drop_channel(write.connection, name, f"channel {name}")
        self._grants.drop_object(write, "channel", name)
        write.after_commit.append(self._forget)

    # Brokers

    @writes
    def create_broker(self, write: Write, name: str, url: str) -> Broker:
        refuse_unstorable(name)
        if exists(write.connection, "broker", name):
            raise _taken("broker", name)
        broker = Broker(name, url, write.now)
        write.connection.execute(insert(schema.brokers), msgspec.to_builtins(broker))
        return broker

    @writes
    def put_broker(self, write: Write, name: str, url: str) -> Broker:
        """Create the broker, or change where notices for it go."""
        brokers = schema.brokers
        refuse_unstorable(name)
        if not exists(write.connection, "broker", name):
            row = {"name": name, "url": url, "created_at": write.now}
            write.connection.execute(insert(brokers), row)
        else:
            write.connection.execute(
                update(brokers)
                .where((brokers.c.name == name) & (brokers.c.url != url))
                .values(url=url)
            )
        return _broker(write.connection, name)

    @reads
    def broker(self, connection: Connection, name: str) -> Broker:
        return _broker(connection, name)

    @reads
    def brokers(self, connection: Connection) -> list[Broker]:
        rows = connection.execute(select(schema.brokers).order_by(schema.brokers.c.name))
        return [Broker(row.name, row.url, row.created_at) for row in rows]

    @writes
    def drop_broker(self, write: Write, name: str) -> None:
        require(write.connection, "broker", name)
        on_broker = schema.frontend_subscriptions.c.broker == name
        _refuse_subscribed(write.connection, f"broker {name}", on_broker)
        gone = schema.detachments.c.broker == name
        write.connection.execute(delete(schema.detachments).where(gone))
        write.connection.execute(delete(schema.brokers).where(schema.brokers.c.name == name))

    @writes
    def _create(
        self, write: Write, table: Table, kind: str, thing: _Named, needs: tuple[str, ...] = ()
    ) -> _Named:
        refuse_unstorable(thing.name)
        if exists(write.connection, kind, thing.name):
            raise _taken(kind, thing.name)
        for dataset in needs:
            require(write.connection, "dataset", dataset)
        if not thing.created_at:
            thing = msgspec.structs.replace(thing, created_at=write.now)
        body = msgspec.json.encode(thing).decode()
        write.connection.execute(insert(table), {"name": thing.name, "body": body})
        if isinstance(thing, Dataset) and thing.routed:
            filters = filters_of(thing)
            refuse_unstorable(filters.name)
            body = msgspec.json.encode(filters).decode()
            write.connection.execute(insert(schema.channels), {"name": filters.name, "body": body})
        return thing

    def _get(self, table: Table, kind: type[_Named], name: str) -> _Named:
        known = self._known.get((table.name, name))
        if isinstance(known, kind):
            return known
        drops = self._drops
        body = self._body(table, name)
        if body is None:
            raise missing(kind.__name__.lower(), name)
        thing = msgspec.json.decode(body, type=kind)
        if drops == self._drops:  # else it may have been dropped while we read
            self._known[table.name, name] = thing
        return thing

    @reads
    def _body(self, connection: Connection, table: Table, name: str) -> str | None:
        return connection.execute(select(table.c.body).where(table.c.name == name)).scalar()

    def _forget(self) -> None:
        self._drops += 1
        self._known.clear()


def _taken(kind: str, name: str) -> Conflict:
    return Conflict(
        f"{kind} {name} exists already",
        field="name",
        hint=f"choose another name, or drop the {kind}",
    )


def _dataset(connection: Connection, name: str) -> Dataset:
    query = select(schema.datasets.c.body).where(schema.datasets.c.name == name)
    body = connection.execute(query).scalar()
    if body is None:
        raise missing("dataset", name)
    return msgspec.json.decode(body, type=Dataset)


def _drop_channel(connection: Connection, name: str, what: str) -> None:
    backend, frontend = schema.backend_subscriptions, schema.frontend_subscriptions
    of_channel = (frontend.c.backend == backend.c.id) & (backend.c.channel == name)
    _refuse_subscribed(connection, what, of_channel)
    for table in (schema.runs, schema.progress, schema.losses):
        connection.execute(delete(table).where(table.c.channel == name))
    connection.execute(delete(schema.channels).where(schema.channels.c.name == name))


def _all(connection: Connection, table: Table, kind: type[_Named]) -> list[_Named]:
    bodies = connection.execute(select(table.c.body).order_by(table.c.name)).scalars()
    return [msgspec.json.decode(body, type=kind) for body in bodies]


def _broker(connection: Connection, name: str) -> Broker:
    row = connection.execute(select(schema.brokers).where(schema.brokers.c.name == name)).first()
    if row is None:
        raise missing("broker", name)
    return Broker(row.name, row.url, row.created_at)


def _refuse_subscribed(connection: Connection, what: str, condition: Any) -> None:
    frontend = schema.frontend_subscriptions
    count = connection.execute(select(func.count(frontend.c.id)).where(condition)).scalar_one()
    if count:
        first = select(frontend.c.id).where(condition).order_by(frontend.c.id).limit(_SHOWN)
        ids = [str(number) for number in connection.execute(first).scalars()]
        raise Conflict(
            f"{what} has {_listed('subscription', ids, count)}",
            field="name",
            hint="unsubscribe or move them first",
        )


def _listed(noun: str, names: list[str], count: int | None = None) -> str:
    """'1 subscription: 4', '12 subscriptions: 1, 2, 3, 4, 5, …'"""
    count = len(names) if count is None else count
    shown = ", ".join(names[:_SHOWN]) + (", …" if count > _SHOWN else "")
    return f"{count} {noun}{'' if count == 1 else 's'}: {shown}"
