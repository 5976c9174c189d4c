"""Subscriptions are made: what several callers ask for at the same time, in one transaction.

Each of them gets all that they asked for, or an error and nothing; none can tell that there were
others. Whatever is asked of the database is asked for all of them together. Knows nothing of who
follows which parameter sets there are: it is told with what is made.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, tuple_, update

from tocsin.errors import TocsinError
from tocsin.model import Arguments, BackendSubscription, Subscription, filtered_dataset
from tocsin.storage.store import news, progress, schema
from tocsin.storage.store.database import Write
from tocsin.storage.store.grants import Credentials, Rights, needed_for
from tocsin.storage.store.names import missing, refuse_unstorable, those_there
from tocsin.storage.store.quotas import Room
from tocsin.storage.store.subscription_rows import (
    backend_hash,
    backends_with,
    canonical,
    chunks,
    subscriptions_where,
)

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions
_BACKEND_COLUMNS = (
    "id", "channel", "arguments", "hash", "epoch", "head", "floor", "sequence", "since",
)  # fmt: skip
_FRONTEND_COLUMNS = (
    "id", "subscriber", "broker", "backend", "marker", "sequence", "credentials",
)  # fmt: skip


class Wish(NamedTuple):
    """Arguments come in canonical form (every parameter, values of its type). A new subscription
    begins behind `marker`, or without one at the head. A new backend subscription counts records of
    its channel's one NEW dataset from `since` on, or from where the channel stands if it is past
    that: somebody published while this subscription was made."""

    subscriber: str
    channel: str
    arguments: Arguments
    broker: str | None = None
    marker: int | None = None
    since: int = 0


class Asked(NamedTuple):
    """What one caller asks for in one step, and what they have shown; None: nobody knows who
    asks."""

    wishes: Sequence[Wish]
    shown: Credentials | None = None


Made = list[tuple[Subscription, bool]]
"""The subscription of each wish, and whether its backend is new: told once for each."""

_Pair = tuple[str, str]
"""A subscriber, and the hash of a backend subscription."""


class _Planned(NamedTuple):
    wish: Wish
    broker: str | None
    shown: Credentials | None


class Making:
    """Of one transaction. `journal` is told of each new backend subscription."""

    def __init__(
        self,
        write: Write,
        rights: Rights,
        room: Room,
        journal: Callable[[BackendSubscription], None],
    ) -> None:
        self._write = write
        self._rights = rights
        self._room = room
        self._journal = journal
        self._backends: dict[str, BackendSubscription] = {}  # by hash
        self._known: dict[_Pair, Subscription] = {}
        self._texts: dict[str, str] = {}  # canonical arguments by hash
        self._planned: dict[_Pair, _Planned] = {}
        self._moving: dict[_Pair, str] = {}
        self._shown: dict[_Pair, Credentials] = {}  # for what was known, most recently

    def make(self, asked: Sequence[Asked]) -> list[Made | TocsinError]:
        """The subscribers' one subscription to each of these parameter sets.

        A repeat gives the same subscription where it is: it is put on the broker only if it was on
        none. A repeat may be late, and must not tear a subscriber apart that has moved since. What
        the subscriber has `shown` decides, in the order of grants, revocations and quotas, whether
        they may, and whether there is room; nobody is refused what they have already.
        """
        outcomes: list[list[_Pair] | TocsinError] = [self._look_at(caller) for caller in asked]
        self._find(asked, [pairs for pairs in outcomes if not isinstance(pairs, TocsinError)])
        for place, caller in enumerate(asked):
            pairs = outcomes[place]
            if not isinstance(pairs, TocsinError):
                try:
                    self._plan(caller, pairs)
                except TocsinError as error:
                    outcomes[place] = error
        new = self._carry_out()
        return [
            pairs
            if isinstance(pairs, TocsinError)
            else [(self._known[pair], _taken(new, pair[1])) for pair in pairs]
            for pairs in outcomes
        ]

    def _look_at(self, asked: Asked) -> list[_Pair] | TocsinError:
        """What needs no database."""
        try:
            if asked.shown is not None:
                for channel in dict.fromkeys(wish.channel for wish in asked.wishes):
                    self._rights.require(asked.shown, *needed_for(channel))
            for subscriber in dict.fromkeys(wish.subscriber for wish in asked.wishes):
                refuse_unstorable(subscriber, "subscriber")
            return [(wish.subscriber, self._hash(wish)) for wish in asked.wishes]
        except TocsinError as error:
            return error

    def _hash(self, wish: Wish) -> str:
        text = canonical(wish.arguments)
        hash_ = backend_hash(wish.channel, text)
        self._texts[hash_] = text
        return hash_

    def _find(self, asked: Sequence[Asked], wanted: Sequence[Sequence[_Pair]]) -> None:
        """All that is there already."""
        connection = self._write.connection
        brokers = {
            wish.broker for caller in asked for wish in caller.wishes if wish.broker is not None
        }
        channels = {wish.channel for caller in asked for wish in caller.wishes}
        self._brokers = those_there(connection, "broker", brokers)
        self._channels = those_there(connection, "channel", channels)
        self._backends = backends_with(connection, list(self._texts))
        hashes = {backend.id: hash_ for hash_, backend in self._backends.items()}
        held = {
            (subscriber, self._backends[hash_].id)
            for pairs in wanted
            for subscriber, hash_ in pairs
            if hash_ in self._backends
        }
        for chunk in chunks(list(held)):
            once = tuple_(_frontend.c.subscriber, _frontend.c.backend).in_(chunk)
            for known in subscriptions_where(connection, once):
                self._known[known.subscriber, hashes[known.backend.id]] = known

    def _plan(self, asked: Asked, pairs: Sequence[_Pair]) -> None:
        """Raises if something of it cannot be had; then nothing of it is planned."""
        fresh: dict[_Pair, Wish] = {}
        for pair, wish in zip(pairs, asked.wishes, strict=True):
            if wish.broker is not None and wish.broker not in self._brokers:
                raise missing("broker", wish.broker)
            if pair in self._known or pair in self._planned:
                continue
            if pair[1] not in self._backends and wish.channel not in self._channels:
                raise missing("channel", wish.channel)
            fresh.setdefault(pair, wish)
        if fresh:
            self._room.take(asked.shown, _counted(fresh.values()))
        for pair, wish in fresh.items():
            self._planned[pair] = _Planned(wish, wish.broker, asked.shown)
        for pair, wish in zip(pairs, asked.wishes, strict=True):
            self._repeat(pair, wish.broker, asked.shown)

    def _repeat(self, pair: _Pair, broker: str | None, shown: Credentials | None) -> None:
        planned = self._planned.get(pair)
        if planned is not None:
            self._planned[pair] = _Planned(
                planned.wish, planned.broker or broker, shown or planned.shown
            )
            return
        if shown is not None:
            self._shown[pair] = shown
        if broker is not None and self._known[pair].broker is None:
            self._moving.setdefault(pair, broker)

    def _carry_out(self) -> set[str]:
        """Write what is planned. Returns the hashes of new backend subscriptions."""
        new: dict[str, Wish] = {}
        for pair, planned in self._planned.items():
            if pair[1] not in self._backends:
                new.setdefault(pair[1], planned.wish)
        there = {hash_ for _, hash_ in (*self._planned, *self._moving)} - new.keys()
        self._write.lock_referred(self._backends[hash_].id for hash_ in there)
        self._create_backends(new)
        self._create_frontends()
        by_broker: dict[str, list[_Pair]] = {}
        for pair, broker in self._moving.items():
            by_broker.setdefault(broker, []).append(pair)
        for broker, pairs in by_broker.items():
            moved = move(self._write, [self._known[pair] for pair in pairs], broker)
            self._known |= zip(pairs, moved, strict=True)
        by_shown: dict[Credentials, list[Subscription]] = {}
        for pair, shown in self._shown.items():
            by_shown.setdefault(shown, []).append(self._known[pair])
        for shown, subscriptions in by_shown.items():
            note_credentials(self._write, subscriptions, shown)
        return set(new)

    def _create_backends(self, wishes: Mapping[str, Wish]) -> None:
        if not wishes:
            return
        write = self._write
        passed = _passed(write.connection, {wish.channel for wish in wishes.values()})
        rows: list[tuple[Any, ...]] = []
        ids, sequence = write.take_ids("backend", len(wishes)), write.sequence()
        for number, (hash_, wish) in zip(ids, wishes.items(), strict=True):
            channel, text = wish.channel, self._texts[hash_]
            since = max(wish.since, passed[channel])
            backend = BackendSubscription(
                number, channel, msgspec.json.decode(text), secrets.token_hex(8), since=since
            )
            self._backends[hash_] = backend
            rows.append((number, channel, text, hash_, backend.epoch, 0, 0, sequence, since))
            self._journal(backend)
        write.insert_many(_backend, _BACKEND_COLUMNS, rows)

    def _create_frontends(self) -> None:
        if not self._planned:
            return
        write, rows = self._write, []
        stored: dict[Credentials | None, str | None] = {None: None}
        numbers, sequence = write.take_ids("frontend", len(self._planned)), write.sequence()
        for number, (pair, planned) in zip(numbers, self._planned.items(), strict=True):
            subscriber, backend = pair[0], self._backends[pair[1]]
            shown, begin = planned.shown, _begin(backend, planned.wish.marker)
            if shown is not None and shown not in stored:
                stored[shown] = shown.stored()
            made = Subscription(number, subscriber, planned.broker, backend, begin)
            self._known[pair] = made
            rows.append(
                (number, subscriber, made.broker, backend.id, begin, sequence, stored[shown])
            )
        write.insert_many(_frontend, _FRONTEND_COLUMNS, rows)


def move(write: Write, subscriptions: list[Subscription], broker: str) -> list[Subscription]:
    moving = [subscription for subscription in subscriptions if subscription.broker != broker]
    if moving:
        news.detach(write, moving)
        news.arrive(write, moving, broker)
    return [msgspec.structs.replace(subscription, broker=broker) for subscription in subscriptions]


def note_credentials(
    write: Write, subscriptions: Sequence[Subscription], shown: Credentials
) -> None:
    """Remember what their subscriber showed last."""
    stored, column = shown.stored(), _frontend.c.credentials
    for chunk in chunks([frontend.id for frontend in subscriptions]):
        changed = _frontend.c.id.in_(chunk) & (column.is_(None) | (column != stored))
        write.connection.execute(update(_frontend).where(changed).values(credentials=stored))


def _taken(hashes: set[str], hash_: str) -> bool:
    """Whether it is there, for the first who asks."""
    if hash_ not in hashes:
        return False
    hashes.remove(hash_)
    return True


def _passed(connection: Connection, channels: Iterable[str]) -> dict[str, int]:
    """Up to where channels have looked at the one NEW dataset that they have."""
    ends_by_channel = {}
    for channel in channels:
        stands = progress.read(connection, channel)
        ends = [] if stands is None else list(stands.ends.values())
        ends_by_channel[channel] = ends[0] if len(ends) == 1 else 0
    return ends_by_channel


def _counted(wishes: Iterable[Wish]) -> dict[str, Counter[str]]:
    """How many there are, by subscriber and channel."""
    counts: dict[str, Counter[str]] = {}
    for wish in wishes:
        counts.setdefault(wish.subscriber, Counter())[wish.channel] += 1
    return counts


def _begin(backend: BackendSubscription, marker: int | None) -> int:
    """A marker never passes the head; that of a filter is the end of a log, which others know."""
    if marker is None:
        return backend.head
    if filtered_dataset(backend.channel) is not None:
        return marker
    return max(backend.floor, min(marker, backend.head))
