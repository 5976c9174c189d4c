"""Frontend subscriptions, and the backend subscriptions they are merged into.

A backend subscription lives while someone holds it; the last to leave takes its results along.
Knows nothing of runs, matching or delivery.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Table, delete, func, insert, select

from tocsin.model import ANY, Arguments, BackendSubscription, Subscription
from tocsin.storage import markers, news, schema
from tocsin.storage.database import Database, Write, current_sequence
from tocsin.storage.names import refuse_unstorable, require
from tocsin.storage.news import News
from tocsin.storage.parameter_journal import ParameterChanges, ParameterJournal
from tocsin.storage.subscription_rows import (
    backend_hash,
    backend_with,
    canonical,
    subscription,
    subscriptions_where,
)

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions


class Subscriptions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._journal = ParameterJournal(database.opened_at_sequence)

    def subscribe(
        self, subscriber: str, channel: str, arguments: Arguments, broker: str | None
    ) -> tuple[Subscription, bool]:
        """The subscriber's one subscription to these arguments, and whether its backend is new.

        Arguments come in canonical form (every parameter, values of its type). A repeat gives the
        same subscription where it is: it is put on the broker only if it was on none. A repeat may
        be late, and must not tear a subscriber apart that has moved since. A marker starts at the
        head.
        """
        return self.subscribe_all([(subscriber, channel, arguments, broker)])[0]

    def subscribe_all(
        self, wanted: Iterable[tuple[str, str, Arguments, str | None]]
    ) -> list[tuple[Subscription, bool]]:
        """Many at once: all of them are made, or none."""
        with self._database.write() as write:
            return [self._subscribe(write, *one) for one in wanted]

    def unsubscribe(self, number: int, subscriber: str | None = None) -> Subscription:
        with self._database.write() as write:
            found = subscription(write.connection, number, subscriber)
            news.detach(write, [found])
            write.connection.execute(delete(_frontend).where(_frontend.c.id == number))
            held = select(_frontend.c.id).where(_frontend.c.backend == found.backend.id).limit(1)
            if write.connection.execute(held).first() is None:
                self._remove_backend(write, found.backend.channel, found.backend.id)
            return found

    def attach(self, subscriber: str, broker: str) -> list[Subscription]:
        """Move everything of the subscriber to the broker."""
        with self._database.write() as write:
            require(write.connection, "broker", broker)
            mine = _frontend.c.subscriber == subscriber
            return _move(write, subscriptions_where(write.connection, mine), broker)

    def move(self, number: int, broker: str) -> Subscription:
        with self._database.write() as write:
            require(write.connection, "broker", broker)
            return _move(write, [subscription(write.connection, number)], broker)[0]

    def get(self, number: int) -> Subscription:
        with self._database.read() as connection:
            return subscription(connection, number)

    def all_(self) -> list[Subscription]:
        with self._database.read() as connection:
            return subscriptions_where(connection)

    def of_subscriber(self, name: str) -> list[Subscription]:
        with self._database.read() as connection:
            return subscriptions_where(connection, _frontend.c.subscriber == name)

    def of_broker(self, broker: str) -> tuple[int, list[Subscription]]:
        """All on that broker, and the sequence from which `news` continues."""
        with self._database.read() as connection:
            require(connection, "broker", broker)
            sequence = current_sequence(connection)
            return sequence, subscriptions_where(connection, _frontend.c.broker == broker)

    def news(self, broker: str, since: int) -> News:
        """What changed for that broker after a sequence: see `storage.news`."""
        with self._database.read() as connection:
            return news.news(connection, broker, since)

    def put_markers(self, wanted: Sequence[tuple[int, str, int]]) -> list[int]:
        """Move markers (subscription, epoch, position) forward; returns the ids nobody knows."""
        with self._database.write() as write:
            return markers.put(write.connection, wanted)

    def open_sets(self, channel: str) -> list[Arguments]:
        """The parameter sets that leave a parameter open."""
        some = _backend.c.arguments.contains(f":{canonical(dict(ANY))}", autoescape=True)
        with self._database.read() as connection:
            found = connection.scalars(
                select(_backend.c.arguments).where(_backend.c.channel == channel, some)
            ).all()
        return [msgspec.json.decode(text, type=dict) for text in found]

    def parameter_sets(self, channel: str) -> list[tuple[int, Arguments]]:
        """Every backend subscription of the channel with its arguments.

        To follow changes, ask `parameter_version` first: what happens in between is then told by
        `parameter_changes` once more, which does no harm.
        """
        with self._database.read() as connection:
            rows = connection.execute(
                select(_backend.c.id, _backend.c.arguments)
                .where(_backend.c.channel == channel)
                .order_by(_backend.c.id)
            ).all()
        decode = msgspec.json.Decoder(dict).decode
        return [(number, decode(text)) for number, text in rows]

    def count_parameter_sets(self, channel: str) -> int:
        with self._database.read() as connection:
            counted = select(func.count()).where(_backend.c.channel == channel)
            return int(connection.execute(counted).scalar_one())

    def parameter_version(self, channel: str) -> int:
        """Grows with each backend subscription of the channel that comes or goes."""
        return self._journal.version(channel)

    def parameter_changes(self, channel: str, since_version: int) -> ParameterChanges | None:
        """(version, added, removed) after that version; None: read `parameter_sets` again."""
        return self._journal.since(channel, since_version)

    def _subscribe(
        self, write: Write, subscriber: str, channel: str, arguments: Arguments, broker: str | None
    ) -> tuple[Subscription, bool]:
        refuse_unstorable(subscriber, "subscriber")
        if broker is not None:
            require(write.connection, "broker", broker)
        text = canonical(arguments)
        found = backend_with(write.connection, backend_hash(channel, text))
        backend = found or self._create_backend(write, channel, text)
        if found:
            once = (_frontend.c.subscriber == subscriber) & (_frontend.c.backend == found.id)
            known = subscriptions_where(write.connection, once)
            if known and known[0].broker is None and broker is not None:
                known = _move(write, known, broker)
            if known:
                return known[0], False
        values = {
            "subscriber": subscriber,
            "broker": broker,
            "backend": backend.id,
            "marker": backend.head,
            "sequence": write.sequence(),
        }
        number = _inserted(write, _frontend, values)
        return Subscription(number, subscriber, broker, backend, backend.head), found is None

    def _create_backend(self, write: Write, channel: str, arguments: str) -> BackendSubscription:
        require(write.connection, "channel", channel)
        epoch = secrets.token_hex(8)
        values = {
            "channel": channel,
            "arguments": arguments,
            "hash": backend_hash(channel, arguments),
            "epoch": epoch,
            "head": 0,
            "floor": 0,
            "sequence": write.sequence(),
        }
        number = _inserted(write, _backend, values)
        made = BackendSubscription(number, channel, msgspec.json.decode(arguments), epoch)
        self._journal_later(write, channel, number, made.arguments)
        return made

    def _remove_backend(self, write: Write, channel: str, number: int) -> None:
        write.connection.execute(delete(schema.results).where(schema.results.c.backend == number))
        write.connection.execute(delete(_backend).where(_backend.c.id == number))
        self._journal_later(write, channel, number, None)

    def _journal_later(
        self, write: Write, channel: str, number: int, added: Arguments | None
    ) -> None:
        version = write.sequence()
        write.after_commit.append(lambda: self._journal.record(channel, version, number, added))


def _move(write: Write, found: list[Subscription], broker: str) -> list[Subscription]:
    moving = [one for one in found if one.broker != broker]
    if moving:
        news.detach(write, moving)
        news.arrive(write, moving, broker)
    return [msgspec.structs.replace(one, broker=broker) for one in found]


def _inserted(write: Write, table: Table, values: dict[str, Any]) -> int:
    key = write.connection.execute(insert(table), values).inserted_primary_key
    assert key is not None
    return int(key[0])
