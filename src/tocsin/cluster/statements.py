"""Execute statements: one small function per kind, found by the statement's type.

Everything a statement changes goes through `Cluster`, the same object that the REST routes use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import blake2b
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tocsin import sql
from tocsin.cluster.descriptions import (
    channel_table,
    dataset_table,
    describe_channel,
    describe_dataset,
    subscription_table,
)
from tocsin.cluster.grants import create_role, drop_role, grant, revoke, show_grants
from tocsin.cluster.quotas import drop_quota, set_quota, show_quotas
from tocsin.cluster.subscriptions import Wanted
from tocsin.errors import (
    Conflict,
    Forbidden,
    NotFound,
    RecordError,
    StatementError,
    TocsinError,
    TooLarge,
)
from tocsin.intake.formats import RawRecord
from tocsin.intake.keys import key_of
from tocsin.intake.sorting import Elsewhere
from tocsin.model import FILTERED, Dataset, Subscription
from tocsin.overlay.filters import as_text
from tocsin.protocol.publishing import StatementResult
from tocsin.service.tokens import Identity

if TYPE_CHECKING:
    from tocsin.cluster.cluster import Cluster


SHORT_CHARACTERS = 4096
"""A text up to here is read by the event loop itself."""
SUBSCRIBER_CHARACTERS = 64 * 1024
MOST_ROWS = 100_000
"""When so many rows are to be answered, no further statement is begun."""


class Session(Struct, frozen=True):
    """Who asks, and in whose name."""

    cluster: Cluster
    identity: Identity
    subscriber: str
    digest: str  # of the whole text
    key: str | None  # the same text under the same key is inserted once
    asker: Identity  # whose token was shown


async def execute(
    cluster: Cluster,
    text: str,
    identity: Identity,
    subscriber: str | None,
    key: str | None = None,
    asker: Identity | None = None,
) -> list[StatementResult]:
    """Run the statements in order. A text that does not parse runs nothing; a statement that fails
    stops those after it, and the error says which were done. `asker`: whose token a broker passed
    on; without one the caller speaks for itself."""
    asker = asker or identity
    person = subscriber or asker.subject
    for_others = identity.scopes & {"admin", "broker"} and identity.broker is None
    if person not in (identity.subject, asker.subject) and not for_others:
        raise Forbidden("only an admin may speak for another subscriber", field="subscriber")
    _check_length(cluster, text, identity)
    digest = "" if key is None else blake2b(text.encode(errors="replace")).hexdigest()
    session = Session(cluster, identity, person, digest, key, asker)
    reading = partial(_allowed, text, identity)
    short = len(text) < SHORT_CHARACTERS
    statements = reading() if short else await cluster.large_bodies.run(identity.subject, reading)
    done: list[StatementResult] = []
    rows = 0
    for run in _runs(statements):
        if rows > MOST_ROWS:
            raise TooLarge(
                f"the answers to these statements have more than {MOST_ROWS} rows",
                field="sql",
                hint="ask in several requests",
            )
        placed = partial(_placed, alone=len(statements) == 1)
        if type(run[0]) in _WISHES:
            results = await _subscribe_all(session, run, placed)
        else:
            (statement,) = run
            with placed(statement):
                results = [await _HANDLERS[type(statement)][1](session, statement)]
        done += results
        rows += sum(len(result.rows) for result in results)
    return done


def _runs(statements: Sequence[sql.Statement]) -> Iterator[list[sql.Statement]]:
    """Those that are done in one step: subscriptions that follow each other."""
    for together, run in groupby(statements, key=lambda statement: type(statement) in _WISHES):
        if together:
            yield list(run)
        else:
            yield from ([statement] for statement in run)


@contextmanager
def _placed(statement: sql.Statement, alone: bool) -> Iterator[None]:
    """An error says which of several statements it is about."""
    try:
        yield
    except RecursionError:
        raise StatementError(
            "this statement nests too deep", line=statement.line, column=statement.column
        ) from None
    except StatementError as error:
        if error.line is None and not alone:
            error.line, error.column = statement.line, statement.column
        raise


def _check_length(cluster: Cluster, text: str, identity: Identity) -> None:
    """Who neither inserts nor defines anything needs few words."""
    most = cluster.settings.statements_limit_bytes
    if not identity.scopes & {"admin", "publish"}:
        most = min(most, SUBSCRIBER_CHARACTERS)
    if len(text) > most:
        raise TooLarge(
            f"these statements have {len(text)} characters, where {most} are taken",
            field="sql",
            hint="send them in several requests; records can be sent as JSON or CSV instead of"
            " INSERT",
        )


def _allowed(text: str, identity: Identity) -> list[sql.Statement]:
    """All statements, read one by one: what comes behind the first that is not allowed is not."""
    statements = []
    for statement in sql.statements_of(text):
        scopes, _ = _HANDLERS.get(type(statement)) or _WISHES[type(statement)]
        identity.require(*scopes)
        statements.append(statement)
    return statements


async def _create_dataset(session: Session, statement: sql.CreateDataset) -> StatementResult:
    dataset = Dataset(
        name=statement.name,
        columns=statement.columns,
        open=statement.open,
        primary_key=statement.primary_key,
        retain_s=statement.retain_s,
        created_at=session.cluster.store.now(),
        source=statement.source,
        routed=statement.routed,
        bound=statement.bound,
    )
    return await _create(
        "dataset", statement.name, statement.if_not_exists, session.cluster.create_dataset(dataset)
    )


async def _create_channel(session: Session, statement: sql.CreateChannel) -> StatementResult:
    creating = session.cluster.create_channel(statement)
    return await _create("channel", statement.name, statement.if_not_exists, creating)


async def _create_broker(session: Session, statement: sql.CreateBroker) -> StatementResult:
    session.identity.require_broker(statement.name)
    creating = session.cluster.create_broker(statement.name, statement.url)
    return await _create("broker", statement.name, statement.if_not_exists, creating)


async def _create(
    kind: str, name: str, if_not_exists: bool, creating: Awaitable[None]
) -> StatementResult:
    try:
        await creating
    except Conflict:
        if not if_not_exists:
            raise
        return StatementResult(f"create {kind}", f"{kind} {name} was there already")
    return StatementResult(f"create {kind}", f"{kind} {name} created")


async def _drop(session: Session, statement: sql.Drop) -> StatementResult:
    cluster = session.cluster
    drops: dict[str, Callable[[str], Awaitable[str | None]]] = {
        "dataset": cluster.drop_dataset,
        "channel": cluster.drop_channel,
        "broker": cluster.drop_broker,
        "role": partial(drop_role, cluster),
    }
    try:
        said = await drops[statement.kind](statement.name)
    except NotFound:
        if not statement.if_exists:
            raise
        return StatementResult(
            f"drop {statement.kind}", f"there was no {statement.kind} {statement.name}"
        )
    message = said or f"{statement.kind} {statement.name} dropped"
    return StatementResult(f"drop {statement.kind}", message)


async def _subscribe_all(
    session: Session,
    statements: Sequence[sql.Statement],
    placed: Callable[[sql.Statement], AbstractContextManager[None]],
) -> list[StatementResult]:
    wanted: list[Wanted] = []
    counts = []
    for statement in statements:
        with placed(statement):
            of_statement = await _WISHES[type(statement)][1](session, statement)
        wanted += of_statement
        counts.append(len(of_statement))
    subscriptions = session.cluster.subscriptions
    try:
        wishes = await subscriptions.wishes(wanted, session.asker)
    except TocsinError as error:
        statement, row = _source(statements, counts, error.index or 0)
        error.index = None
        if isinstance(statement, sql.SubscribeMany):
            error.message = f"row {row + 1}: {error.message}"
        with placed(statement):
            raise
    made = await subscriptions.subscribe_all(wishes, session.asker)
    present = iter(await asyncio.to_thread(session.cluster.routing.present, made))
    return [
        _subscribed(statement, list(islice(present, count)))
        for statement, count in zip(statements, counts, strict=True)
    ]


def _source(
    statements: Sequence[sql.Statement], counts: Sequence[int], at: int
) -> tuple[sql.Statement, int]:
    """The statement that one of all wishes is of, and which of its own it is."""
    for statement, count in zip(statements, counts, strict=True):
        if at < count:
            return statement, at
        at -= count
    raise AssertionError("there are not so many")


def _subscribed(statement: sql.Statement, made: Sequence[Subscription]) -> StatementResult:
    message = f"{len(made)} subscriptions"
    if not isinstance(statement, sql.SubscribeMany):
        message = f"subscription {made[0].id}"
    return StatementResult("subscribe", message, *subscription_table(made))


async def _wanted(session: Session, statement: sql.Subscribe) -> list[Wanted]:
    return [_asked_for(session, statement, statement.channel, statement.arguments)]


async def _all_wanted(session: Session, statement: sql.SubscribeMany) -> list[Wanted]:
    return [_asked_for(session, statement, statement.channel, row) for row in statement.rows]


async def _wanted_records(session: Session, statement: sql.SubscribeToDataset) -> list[Wanted]:
    session.cluster.permissions.require(session.identity, "read", statement.dataset)
    dataset = await asyncio.to_thread(session.cluster.store.catalog.dataset, statement.dataset)
    bound = await asyncio.to_thread(sql.bind_filter, statement.where, dataset)
    where = {"where": as_text(bound)}  # with the place of what is wrong in it
    return [_asked_for(session, statement, FILTERED + statement.dataset, where)]


def _asked_for(
    session: Session,
    statement: sql.Subscribe | sql.SubscribeMany | sql.SubscribeToDataset,
    channel: str,
    arguments: list[Any] | dict[str, Any],
) -> Wanted:
    broker, beginning = statement.broker, statement.beginning
    return Wanted(session.subscriber, channel, arguments, broker, beginning)


async def _unsubscribe(session: Session, statement: sql.Unsubscribe) -> StatementResult:
    owner = None if "admin" in session.identity.scopes else session.subscriber
    await session.cluster.subscriptions.unsubscribe(statement.subscription, owner)
    return StatementResult("unsubscribe", f"subscription {statement.subscription} ended")


async def _change_subscription(
    session: Session, statement: sql.ChangeSubscription
) -> StatementResult:
    subscription = await _own(session, statement.subscription)
    channel = subscription.backend.channel
    session.cluster.permissions.require_subscribe(session.identity, channel)
    await session.cluster.subscriptions.move(statement.subscription, statement.broker)
    return StatementResult(
        "change subscription", f"subscription {statement.subscription} is at {statement.broker}"
    )


async def _own(session: Session, number: int) -> Subscription:
    """A subscription of somebody else looks like one that does not exist."""
    subscription = await asyncio.to_thread(session.cluster.store.subscriptions.get, number)
    if subscription.subscriber != session.subscriber and "admin" not in session.identity.scopes:
        raise NotFound(f"there is no subscription {number}", field="subscription")
    return subscription


async def _insert(session: Session, statement: sql.Insert) -> StatementResult:
    session.cluster.permissions.require_publish(session.identity, statement.dataset)
    dataset = await asyncio.to_thread(session.cluster.store.catalog.dataset, statement.dataset)
    elsewhere: Elsewhere | None = None
    if len(statement.text) >= SHORT_CHARACTERS:
        elsewhere = partial(session.cluster.large_bodies.run, session.identity.subject)
    size_bytes = len(statement.text.encode(errors="replace"))
    session.cluster.throttle.take(session.identity, len(statement.rows), size_bytes)
    published = await session.cluster.publish(
        statement.dataset,
        _rows(statement, dataset),
        publisher=session.identity.subject,
        source="insert",
        key=_key(session, statement),
        elsewhere=elsewhere,
    )
    if published.rejected and not published.accepted:
        first = published.errors[0]
        raise RecordError(f"row {first.line}: {first.reason}", field=first.field)
    columns = ["row", "field", "reason"] if published.errors else []
    rows = [[error.line, error.field, error.reason] for error in published.errors]
    message = f"{published.accepted} accepted, {published.rejected} refused"
    return StatementResult("insert", message, columns, rows)


def _rows(statement: sql.Insert, dataset: Dataset) -> Iterator[RawRecord]:
    """Made where they are checked."""
    for line, fields in enumerate(statement.records(dataset), start=1):
        yield RawRecord(line, fields)


def _key(session: Session, statement: sql.Insert) -> str | None:
    if session.key is None:
        return None
    place = f"insert at {statement.line}, {statement.column}"  # a text may hold the same one twice
    return key_of(session.key, session.identity.subject, place, session.digest)


async def _show(session: Session, statement: sql.Show) -> StatementResult:
    return await asyncio.to_thread(_shown, session, statement)


def _shown(session: Session, statement: sql.Show) -> StatementResult:
    store, visible = session.cluster.store, session.cluster.permissions.visible
    if statement.what == "datasets":
        table = dataset_table(visible(session.identity, "dataset", store.catalog.datasets()))
    elif statement.what == "channels":
        channels = visible(session.identity, "channel", store.catalog.channels())
        table = channel_table(store, channels)
    elif statement.what == "roles":
        session.identity.require("admin")
        table = ["name", "in force"], [[*role] for role in store.grants.roles().items()]
    elif statement.what == "brokers":
        rows = [[broker.name, broker.url] for broker in store.catalog.brokers()]
        table = ["name", "url"], rows
    else:
        everybody = "admin" in session.identity.scopes
        subscriptions = (
            store.subscriptions.all_()
            if everybody
            else store.subscriptions.of_subscriber(session.subscriber)
        )
        table = subscription_table(session.cluster.routing.present(subscriptions))
    return StatementResult(f"show {statement.what}", "", *table)


async def _describe(session: Session, statement: sql.Describe) -> StatementResult:
    return await asyncio.to_thread(_described, session, statement)


def _described(session: Session, statement: sql.Describe) -> StatementResult:
    catalog = session.cluster.store.catalog
    require_visible = session.cluster.permissions.require_visible
    if statement.kind != "channel":
        try:
            require_visible(session.identity, "dataset", statement.name)
            return describe_dataset(session.cluster, catalog.dataset(statement.name))
        except NotFound:
            if statement.kind == "dataset":
                raise
    require_visible(session.identity, "channel", statement.name)
    return describe_channel(session.cluster, catalog.channel(statement.name))


async def _query(session: Session, statement: sql.Query) -> StatementResult:
    answer = await session.cluster.query(statement.text, session.identity.subject)
    more = " (the first ones; there are more)" if answer.cut else ""
    return StatementResult("select", f"{len(answer.rows)} rows{more}", answer.columns, answer.rows)


_Handler = Callable[[Session, Any], Awaitable[StatementResult]]
_HANDLERS: dict[type[sql.Statement], tuple[tuple[str, ...], _Handler]] = {
    sql.CreateDataset: (("admin",), _create_dataset),
    sql.CreateChannel: (("admin",), _create_channel),
    sql.CreateBroker: (("admin", "broker"), _create_broker),
    sql.CreateRole: (("admin",), create_role),
    sql.GrantPrivileges: (("admin",), grant),
    sql.RevokePrivileges: (("admin",), revoke),
    sql.SetQuota: (("admin",), set_quota),
    sql.DropQuota: (("admin",), drop_quota),
    sql.Drop: (("admin",), _drop),
    sql.Unsubscribe: (("subscribe", "admin"), _unsubscribe),
    sql.ChangeSubscription: (("subscribe", "admin"), _change_subscription),
    sql.Insert: (("publish",), _insert),
    sql.Show: ((), _show),
    sql.ShowGrants: ((), show_grants),
    sql.ShowQuotas: ((), show_quotas),
    sql.Describe: ((), _describe),
    sql.Query: (("admin",), _query),
}
_Wisher = Callable[[Session, Any], Awaitable[list[Wanted]]]
_WISHES: dict[type[sql.Statement], tuple[tuple[str, ...], _Wisher]] = {
    sql.Subscribe: (("subscribe", "admin"), _wanted),
    sql.SubscribeMany: (("subscribe", "admin"), _all_wanted),
    sql.SubscribeToDataset: (("subscribe", "admin"), _wanted_records),
}
