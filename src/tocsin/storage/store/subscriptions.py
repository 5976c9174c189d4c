"""Frontend subscriptions, and the backend subscriptions they are merged into.

A backend subscription lives while someone holds it; the last to leave takes its results along.
Knows nothing of runs, matching or delivery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, func, select, update

from tocsin.errors import TocsinError
from tocsin.model import (
    ANY,
    Arguments,
    BackendSubscription,
    Beginning,
    Subscription,
)
from tocsin.storage.store import markers, news, schema
from tocsin.storage.store.database import Database, Write, current_sequence, reads, writes
from tocsin.storage.store.grants import Credentials, Grants, needed_for
from tocsin.storage.store.names import require
from tocsin.storage.store.news import News
from tocsin.storage.store.parameter_journal import ParameterChanges, ParameterJournal
from tocsin.storage.store.quotas import Quotas
from tocsin.storage.store.subscribing import (
    Asked,
    Made,
    Making,
    Wish,
    move,
    note_credentials,
)
from tocsin.storage.store.subscription_rows import (
    backend_hash,
    backends_with,
    canonical,
    chunks,
    subscription,
    subscriptions_where,
)

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions


class Page(NamedTuple):
    """Of a broker's subscriptions, and the sequence from which `news` continues. Up to `upto` there
    are no others; None: nor are there behind it."""

    sequence: int
    subscriptions: list[Subscription]
    upto: int | None


SETS_AT_ONCE = 10_000

_NOWHERE: Mapping[str, int] = {}


class Subscriptions:
    def __init__(self, database: Database, grants: Grants, quotas: Quotas) -> None:
        self._database = database
        self._grants = grants
        self._quotas = quotas
        self._journal = ParameterJournal(database.opened_at_sequence)

    def subscribe(
        self,
        subscriber: str,
        channel: str,
        arguments: Arguments,
        broker: str | None,
        marker: int | None = None,
        since: int = 0,
        shown: Credentials | None = None,
    ) -> tuple[Subscription, bool]:
        """`subscribe_all` for one `Wish`."""
        wish = Wish(subscriber, channel, arguments, broker, marker, since)
        return self.subscribe_all([wish], shown)[0]

    def subscribe_all(self, wanted: Sequence[Wish], shown: Credentials | None = None) -> Made:
        """`subscribe_together` for one caller."""
        (made,) = self.subscribe_together([Asked(wanted, shown)])
        if isinstance(made, TocsinError):
            raise made
        return made

    @writes
    def subscribe_together(self, write: Write, asked: Sequence[Asked]) -> list[Made | TocsinError]:
        """What each of several callers asks for is made, all of it or, as the error says, none:
        see `Making.make`."""
        new: list[BackendSubscription] = []
        room = self._quotas.room(write.connection)
        outcomes = Making(write, self._grants.rights, room, new.append).make(asked)
        if new:
            version = write.sequence()
            write.after_commit.append(lambda: self._journal.record_new(version, new))
        return outcomes

    @writes
    def unsubscribe(self, write: Write, number: int, subscriber: str | None = None) -> Subscription:
        ended = subscription(write.connection, number, subscriber)
        self.end(write, [ended])
        return ended

    def end(self, write: Write, ending: Sequence[Subscription]) -> None:
        """A part of others' transactions, and the last."""
        backends = {frontend.backend.id: frontend.backend.channel for frontend in ending}
        for chunk in chunks([frontend.id for frontend in ending]):
            write.connection.execute(delete(_frontend).where(_frontend.c.id.in_(chunk)))
        held: set[int] = set()
        for chunk in chunks(list(backends)):
            holders = select(_frontend.c.backend).where(_frontend.c.backend.in_(chunk)).distinct()
            held.update(write.connection.scalars(holders))
        left = sorted(backends.keys() - held)
        write.lock_backends(left)
        for chunk in chunks(left):
            of = schema.results.c.backend
            write.connection.execute(delete(schema.results).where(of.in_(chunk)))
            write.connection.execute(delete(_backend).where(_backend.c.id.in_(chunk)))
        news.detach(write, ending)
        for number in left:
            self._gone_later(write, backends[number], number)

    def attach(
        self, subscriber: str, broker: str, shown: Credentials | None = None
    ) -> list[Subscription]:
        """Move everything of the subscriber to the broker. What they may not have by what they
        have `shown` goes to no broker at all: it waits for somebody who shows more. Who is there
        already, and has shown the same, only reads."""
        attached = self._attached(subscriber, broker, shown)
        return self._attach(subscriber, broker, shown) if attached is None else attached

    @reads
    def _attached(
        self, connection: Connection, subscriber: str, broker: str, shown: Credentials | None
    ) -> list[Subscription] | None:
        """None: something is to be written."""
        require(connection, "broker", broker)
        theirs = _frontend.c.subscriber == subscriber
        owned = subscriptions_where(connection, theirs)
        allowed, refused = (owned, []) if shown is None else self._part(owned, shown)
        if any(at.broker != broker for at in allowed) or any(at.broker for at in refused):
            return None
        if shown is None:
            return allowed
        noted = select(_frontend.c.id).where(theirs, _frontend.c.credentials == shown.stored())
        return allowed if {at.id for at in allowed} <= {*connection.scalars(noted)} else None

    @writes
    def _attach(
        self, write: Write, subscriber: str, broker: str, shown: Credentials | None
    ) -> list[Subscription]:
        require(write.connection, "broker", broker)
        owned = subscriptions_where(write.connection, _frontend.c.subscriber == subscriber)
        write.lock_referred(frontend.backend.id for frontend in owned)
        if shown is None:
            return move(write, owned, broker)
        allowed, refused = self._part(owned, shown)
        _put_aside(write, refused)
        note_credentials(write, allowed, shown)
        return move(write, allowed, broker)

    def _part(
        self, subscriptions: Sequence[Subscription], shown: Credentials
    ) -> tuple[list[Subscription], list[Subscription]]:
        """Those that are allowed, and the others."""
        rights = self._grants.rights
        parts: tuple[list[Subscription], list[Subscription]] = ([], [])
        for frontend in subscriptions:
            refused = not rights.allow(shown, *needed_for(frontend.backend.channel))
            parts[refused].append(frontend)
        return parts

    @writes
    def move(self, write: Write, number: int, broker: str) -> Subscription:
        require(write.connection, "broker", broker)
        moving = subscription(write.connection, number)
        write.lock_referred([moving.backend.id])
        return move(write, [moving], broker)[0]

    @reads
    def get(self, connection: Connection, number: int) -> Subscription:
        return subscription(connection, number)

    @reads
    def all_(self, connection: Connection) -> list[Subscription]:
        return subscriptions_where(connection)

    @reads
    def of_subscriber(self, connection: Connection, name: str) -> list[Subscription]:
        return subscriptions_where(connection, _frontend.c.subscriber == name)

    @reads
    def of_broker(self, connection: Connection, broker: str) -> tuple[int, list[Subscription]]:
        """All on that broker, and the sequence from which `news` continues."""
        require(connection, "broker", broker)
        sequence = current_sequence(connection)
        return sequence, subscriptions_where(connection, _frontend.c.broker == broker)

    @reads
    def page_of_broker(
        self, connection: Connection, broker: str, after: int, limit: int, most_bytes: int
    ) -> Page:
        """The first of those behind a number; as many as have arguments of so many bytes, but at
        least one."""
        require(connection, "broker", broker)
        sequence = current_sequence(connection)
        behind = (_frontend.c.broker == broker) & (_frontend.c.id > after)
        sizes = connection.execute(
            select(_frontend.c.id, func.length(_backend.c.arguments))
            .join_from(_frontend, _backend, _frontend.c.backend == _backend.c.id)
            .where(behind)
            .order_by(_frontend.c.id)
            .limit(limit + 1)
        ).all()
        within, left_bytes = 0, most_bytes
        while within < min(limit, len(sizes)) and (left_bytes > 0 or not within):
            left_bytes -= sizes[within][1]
            within += 1
        if within == len(sizes):
            return Page(sequence, subscriptions_where(connection, behind), None)
        upto = sizes[within - 1][0]
        page = subscriptions_where(connection, behind, _frontend.c.id <= upto)
        return Page(sequence, page, upto)

    @reads
    def news(self, connection: Connection, broker: str, since: int, *, heads: bool = True) -> News:
        """What changed for that broker after a sequence: see `storage.news`."""
        return news.news(connection, broker, since, heads=heads)

    @writes
    def put_markers(
        self,
        write: Write,
        wanted: Sequence[tuple[int, str, int]],
        ends: Mapping[str, int] = _NOWHERE,
        broker: str | None = None,
    ) -> list[int]:
        """Move markers (subscription, epoch, position) forward; returns the unknown ids. Markers of
        filters go no farther than the `ends` of their datasets' logs. `broker`: a subscription
        that it does not serve is unknown."""
        return markers.put(write.connection, wanted, ends, broker)

    @reads
    def served_by(
        self, connection: Connection, broker: str, backends: Sequence[int]
    ) -> frozenset[int]:
        """Those of the backend subscriptions that somebody on the broker holds."""
        served: set[int] = set()
        for chunk in chunks(sorted(set(backends))):
            held = select(_frontend.c.backend).where(
                _frontend.c.backend.in_(chunk), _frontend.c.broker == broker
            )
            served.update(connection.scalars(held.distinct()))
        return frozenset(served)

    @reads
    def marker_of(
        self,
        connection: Connection,
        channel: str,
        arguments: Arguments,
        beginning: Beginning,
        now: float,
    ) -> int | None:
        """Behind which position the results begin that a newcomer asks for, as far as they are
        kept; None: there is no past."""
        hash_ = backend_hash(channel, canonical(arguments))
        backend = backends_with(connection, [hash_]).get(hash_)
        if backend is None:
            return None
        if beginning.last is not None:
            return max(backend.floor, backend.head - beginning.last)
        results = schema.results
        recent = results.c.created_at >= now - (beginning.seconds or 0.0)
        first = select(func.min(results.c.position)).where(results.c.backend == backend.id, recent)
        position = connection.execute(first).scalar()
        return backend.head if position is None else int(position) - 1

    @reads
    def known(self, connection: Connection, channel: str, sets: Sequence[Arguments]) -> list[bool]:
        """Whether there are such backend subscriptions."""
        hashes = [backend_hash(channel, canonical(arguments)) for arguments in sets]
        there = backends_with(connection, hashes)
        return [hash_ in there for hash_ in hashes]

    @reads
    def open_sets(self, connection: Connection, channel: str) -> list[Arguments]:
        """The parameter sets that leave a parameter open."""
        leaves_open = _backend.c.arguments.contains(f":{canonical(dict(ANY))}", autoescape=True)
        query = select(_backend.c.arguments).where(_backend.c.channel == channel, leaves_open)
        return [msgspec.json.decode(text, type=dict) for text in connection.scalars(query)]

    def parameter_sets(self, channel: str) -> Iterator[tuple[int, Arguments]]:
        """Every backend subscription of the channel with its arguments, but those set aside, by
        their numbers. They are read as they are asked for: there may be a million.

        To follow changes, ask `parameter_version` first: `parameter_changes` then
        repeats what happened in between, which does no harm.
        """
        decode, after = msgspec.json.Decoder(dict).decode, 0
        while rows := self._sets_after(channel, after):
            for number, text in rows:
                yield number, decode(text)
            after = rows[-1][0]

    @reads
    def _sets_after(
        self, connection: Connection, channel: str, number: int
    ) -> list[tuple[int, str]]:
        rows = connection.execute(
            select(_backend.c.id, _backend.c.arguments)
            .where(
                _backend.c.channel == channel,
                _backend.c.id > number,
                _backend.c.failure.is_(None),
            )
            .order_by(_backend.c.id)
            .limit(SETS_AT_ONCE)
        )
        return [(number, text) for number, text in rows]

    @reads
    def starting_after(self, connection: Connection, channel: str, position: int) -> dict[int, int]:
        """Of the parameter sets that count records only from behind a position, where that is."""
        young = select(_backend.c.id, _backend.c.since).where(
            _backend.c.channel == channel, _backend.c.since > position
        )
        return {number: since for number, since in connection.execute(young)}

    @reads
    def made_after(
        self, connection: Connection, channel: str, backend: int
    ) -> list[tuple[int, Arguments, int]]:
        """Parameter sets that are newer than a backend subscription, and from where they count."""
        rows = connection.execute(
            select(_backend.c.id, _backend.c.arguments, _backend.c.since)
            .where(
                _backend.c.channel == channel,
                _backend.c.id > backend,
                _backend.c.failure.is_(None),
            )
            .order_by(_backend.c.id)
        )
        return [(number, msgspec.json.decode(text), since) for number, text, since in rows]

    @writes
    def set_aside(self, write: Write, channel: str, failures: Mapping[int, str]) -> None:
        """The query fails with these parameter sets: from now on it is asked without them."""
        write.lock_backends(failures)
        for backend, reason in failures.items():
            write.connection.execute(
                update(_backend).where(_backend.c.id == backend).values(failure=reason)
            )
        for backend in failures:
            self._gone_later(write, channel, backend)

    @reads
    def failures(self, connection: Connection, channel: str) -> dict[int, str]:
        """The parameter sets that are set aside, and why."""
        rows = connection.execute(
            select(_backend.c.id, _backend.c.failure).where(
                _backend.c.channel == channel, _backend.c.failure.is_not(None)
            )
        )
        return {number: reason for number, reason in rows}

    @reads
    def count_parameter_sets(self, connection: Connection, channel: str) -> int:
        counted = select(func.count()).where(_backend.c.channel == channel)
        return int(connection.execute(counted).scalar_one())

    def parameter_version(self, channel: str) -> int:
        """Grows with each backend subscription of the channel that comes or goes."""
        return self._journal.version(channel)

    def parameter_changes(self, channel: str, since_version: int) -> ParameterChanges | None:
        """(version, added, removed) after that version; None: read `parameter_sets` again."""
        return self._journal.since(channel, since_version)

    def _gone_later(self, write: Write, channel: str, number: int) -> None:
        version = write.sequence()
        write.after_commit.append(lambda: self._journal.record(channel, version, number, None))


def _put_aside(write: Write, refused: Sequence[Subscription]) -> None:
    """Serve these nowhere."""
    served = [frontend for frontend in refused if frontend.broker is not None]
    news.detach(write, served)
    for chunk in chunks([frontend.id for frontend in served]):
        nowhere = update(_frontend).where(_frontend.c.id.in_(chunk)).values(broker=None)
        write.connection.execute(nowhere)
