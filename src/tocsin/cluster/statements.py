"""Execute statements: one small function per kind, found by the statement's type.

Everything a statement changes goes through `Cluster`, the same object that the REST routes use.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tocsin import sql
from tocsin.cluster.formats import RawRecord
from tocsin.cluster.intake import request_key
from tocsin.errors import (
    Conflict,
    Forbidden,
    NotFound,
    RecordError,
    StatementError,
)
from tocsin.model import FILTERED, Channel, Dataset, Subscription
from tocsin.overlay.filters import as_text
from tocsin.protocol.publishing import StatementResult
from tocsin.service.tokens import Identity
from tocsin.storage.log.kafka import is_kafka
from tocsin.storage.log.segments.lost import read_lost

if TYPE_CHECKING:
    from tocsin.cluster.cluster import Cluster


MOST_LOSSES = 10  # that a description lists


class Session(Struct, frozen=True):
    """Who asks, and in whose name."""

    cluster: Cluster
    identity: Identity
    subscriber: str
    text: str
    key: str | None  # the same text under the same key is inserted once


async def execute(
    cluster: Cluster,
    text: str,
    identity: Identity,
    subscriber: str | None,
    key: str | None = None,
) -> list[StatementResult]:
    """Run the statements in order. A text that does not parse runs nothing; a statement that fails
    stops those after it, and the error says which were done."""
    person = subscriber or identity.subject
    if person != identity.subject and not identity.scopes & {"admin", "broker"}:
        raise Forbidden("only an admin may speak for another subscriber", field="subscriber")
    session = Session(cluster, identity, person, text, key)
    statements = sql.parse(text)
    for statement in statements:
        identity.require(*_HANDLERS[type(statement)][0])
    done: list[StatementResult] = []
    for statement in statements:
        try:
            done.append(await _HANDLERS[type(statement)][1](session, statement))
        except StatementError as error:
            if error.line is None and len(statements) > 1:
                error.line, error.column = statement.line, statement.column
            raise
    return done


async def _create_dataset(session: Session, statement: sql.CreateDataset) -> StatementResult:
    dataset = Dataset(
        name=statement.name,
        columns=statement.columns,
        open=statement.open,
        primary_key=statement.primary_key,
        retain_s=statement.retain_s,
        created_at=time.time(),
        source=statement.source,
        routed=statement.routed,
    )
    return await _create(
        "dataset", statement.name, statement.if_not_exists, session.cluster.create_dataset(dataset)
    )


async def _create_channel(session: Session, statement: sql.CreateChannel) -> StatementResult:
    creating = session.cluster.create_channel(statement)
    return await _create("channel", statement.name, statement.if_not_exists, creating)


async def _create_broker(session: Session, statement: sql.CreateBroker) -> StatementResult:
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
    drop = {
        "dataset": cluster.drop_dataset,
        "channel": cluster.drop_channel,
        "broker": cluster.drop_broker,
    }[statement.kind]
    try:
        await drop(statement.name)
    except NotFound:
        if not statement.if_exists:
            raise
        return StatementResult(
            f"drop {statement.kind}", f"there was no {statement.kind} {statement.name}"
        )
    return StatementResult(f"drop {statement.kind}", f"{statement.kind} {statement.name} dropped")


async def _subscribe(session: Session, statement: sql.Subscribe) -> StatementResult:
    return await _subscribed(session, statement, statement.channel, statement.arguments)


async def _subscribe_to_dataset(
    session: Session, statement: sql.SubscribeToDataset
) -> StatementResult:
    dataset = await asyncio.to_thread(session.cluster.store.catalog.dataset, statement.dataset)
    where = as_text(
        sql.bind_filter(statement.where, dataset)
    )  # with the place of what is wrong in it
    return await _subscribed(session, statement, FILTERED + statement.dataset, {"where": where})


async def _subscribed(
    session: Session,
    statement: sql.Subscribe | sql.SubscribeToDataset,
    channel: str,
    arguments: list[Any] | dict[str, Any],
) -> StatementResult:
    subscription = await session.cluster.subscriptions.subscribe(
        session.subscriber, channel, arguments, statement.broker, statement.beginning
    )
    present = await asyncio.to_thread(session.cluster.routing.present, [subscription])
    columns, rows = _subscription_rows(present)
    return StatementResult("subscribe", f"subscription {subscription.id}", columns, rows)


async def _unsubscribe(session: Session, statement: sql.Unsubscribe) -> StatementResult:
    owner = None if "admin" in session.identity.scopes else session.subscriber
    await session.cluster.subscriptions.unsubscribe(statement.subscription, owner)
    return StatementResult("unsubscribe", f"subscription {statement.subscription} ended")


async def _change_subscription(
    session: Session, statement: sql.ChangeSubscription
) -> StatementResult:
    await _own(session, statement.subscription)
    await session.cluster.subscriptions.move(statement.subscription, statement.broker)
    return StatementResult(
        "change subscription", f"subscription {statement.subscription} is at {statement.broker}"
    )


async def _own(session: Session, number: int) -> None:
    """A subscription of somebody else looks like one that does not exist."""
    subscription = await asyncio.to_thread(session.cluster.store.subscriptions.get, number)
    if subscription.subscriber != session.subscriber and "admin" not in session.identity.scopes:
        raise NotFound(f"there is no subscription {number}", field="subscription")


async def _insert(session: Session, statement: sql.Insert) -> StatementResult:
    dataset = await asyncio.to_thread(session.cluster.store.catalog.dataset, statement.dataset)
    records = [
        RawRecord(line, fields) for line, fields in enumerate(statement.records(dataset), start=1)
    ]
    published = await session.cluster.publish(
        statement.dataset,
        records,
        publisher=session.identity.subject,
        source="insert",
        key=_key(session, statement),
    )
    if published.rejected and not published.accepted:
        first = published.errors[0]
        raise RecordError(f"row {first.line}: {first.reason}", field=first.field)
    columns = ["row", "field", "reason"] if published.errors else []
    rows = [[error.line, error.field, error.reason] for error in published.errors]
    message = f"{published.accepted} accepted, {published.rejected} refused"
    return StatementResult("insert", message, columns, rows)


def _key(session: Session, statement: sql.Insert) -> str | None:
    if session.key is None:
        return None
    place = f"insert at {statement.line}, {statement.column}"  # a text may hold the same one twice
    return request_key(session.key, session.identity.subject, place, session.text.encode())


async def _show(session: Session, statement: sql.Show) -> StatementResult:
    return await asyncio.to_thread(_shown, session, statement)


def _shown(session: Session, statement: sql.Show) -> StatementResult:
    store = session.cluster.store
    if statement.what == "datasets":
        columns = ["name", "columns", "open", "primary key", "retain s", "routed"]
        rows = [
            [
                dataset.name,
                _columns(dataset),
                dataset.open,
                ", ".join(dataset.primary_key),
                dataset.retain_s,
                dataset.routed,
            ]
            for dataset in store.catalog.datasets()
        ]
    elif statement.what == "channels":
        columns = ["name", "kind", "parameters", "every s", "push", "backend subscriptions"]
        counts = store.subscriptions.count_parameter_sets
        rows = [
            [
                channel.name,
                channel.kind,
                _parameters(channel),
                channel.period_s,
                channel.push,
                counts(channel.name),
            ]
            for channel in store.catalog.channels()
        ]
    elif statement.what == "brokers":
        columns = ["name", "url"]
        rows = [[broker.name, broker.url] for broker in store.catalog.brokers()]
    else:
        everybody = "admin" in session.identity.scopes
        subscriptions = (
            store.subscriptions.all_()
            if everybody
            else store.subscriptions.of_subscriber(session.subscriber)
        )
        columns, rows = _subscription_rows(session.cluster.routing.present(subscriptions))
    return StatementResult(f"show {statement.what}", "", columns, rows)


async def _describe(session: Session, statement: sql.Describe) -> StatementResult:
    return await asyncio.to_thread(_described, session, statement)


def _described(session: Session, statement: sql.Describe) -> StatementResult:
    catalog = session.cluster.store.catalog
    if statement.kind != "channel":
        with contextlib.suppress(NotFound):
            return _describe_dataset(session.cluster, catalog.dataset(statement.name))
        if statement.kind == "dataset":
            catalog.dataset(statement.name)
    return _describe_channel(session.cluster, catalog.channel(statement.name))


def _describe_dataset(cluster: Cluster, dataset: Dataset) -> StatementResult:
    rows: list[list[Any]] = [[column.name, column.type] for column in dataset.columns]
    files = cluster.store.files.files(dataset.name)
    rows += [
        ["", ""],
        ["open", "yes: undeclared fields are in _extra" if dataset.open else "no"],
        ["primary key", ", ".join(dataset.primary_key) or "none"],
        ["retained", f"{dataset.retain_s:g} s" if dataset.retain_s else "forever"],
        *_fed(cluster, dataset),
        *_routed(cluster, dataset),
        ["log end", cluster.log.ends().get(dataset.name, 0)],
        ["stored end", cluster.store.files.stored_end(dataset.name)],
        ["files", f"{len(files)} with {sum(file.rows for file in files)} records"],
        *_lost(cluster, dataset),
    ]
    return StatementResult("describe dataset", dataset.name, ["name", "value"], rows)


def _lost(cluster: Cluster, dataset: Dataset) -> list[list[Any]]:
    """What repairs of the log gave up."""
    if is_kafka(cluster.log.address):
        return []
    lost = read_lost(Path(cluster.log.address), dataset.name)
    ranges = ", ".join(f"[{part.first}, {part.end})" for part in lost)
    records = sum(part.records for part in lost)
    return [["lost", f"about {records} records, damaged in the log: {ranges}"]] if lost else []


def _routed(cluster: Cluster, dataset: Dataset) -> list[list[Any]]:
    if not dataset.routed:
        return [["routed", "no"]]
    filters = cluster.store.subscriptions.count_parameter_sets(FILTERED + dataset.name)
    return [
        ["routed", "yes: SUBSCRIBE TO DATASET"],
        ["filters", filters],
        ["readable after", cluster.routing.records.floor(dataset)],
    ]


def _fed(cluster: Cluster, dataset: Dataset) -> list[list[Any]]:
    if dataset.source is None:
        return []
    source = dataset.source
    return [
        ["fed from", f"Kafka topic {source.topic} ({source.format.upper()})"],
        ["feed", cluster.feeds.state(dataset.name)],
    ]


def _describe_channel(cluster: Cluster, channel: Channel) -> StatementResult:
    rows: list[list[Any]] = [
        ["kind", channel.kind],
        ["parameters", _parameters(channel)],
        ["reads", ", ".join(channel.reads)],
        ["new", ", ".join(channel.new) or "nothing"],
    ]
    if channel.period_s is not None:
        rows.append(["every", f"{channel.period_s:g} s"])
    else:
        reason = f": {channel.mode_reason}" if channel.mode_reason else ""
        rows.append(["mode", f"{channel.mode}{reason}"])
    rows += [
        ["delivery", "push" if channel.push else "pull"],
        ["backend subscriptions", cluster.store.subscriptions.count_parameter_sets(channel.name)],
    ]
    rows += [list(pair) for pair in cluster.deliveries.describe(channel)]
    rows += [list(pair) for pair in cluster.engine.describe(channel.name)]
    rows += _health_of(cluster, channel)
    rows += [["overruns", cluster.engine.overruns(channel.name)], ["query", channel.query]]
    return StatementResult("describe channel", channel.name, ["name", "value"], rows)


def _health_of(cluster: Cluster, channel: Channel) -> list[list[Any]]:
    """How it gets on, and what it could not answer."""
    lag = cluster.engine.lag(channel)
    trouble = cluster.engine.trouble_of(channel.name)
    rows: list[list[Any]] = [
        ["behind", f"{lag.seconds:g} s, {lag.records} records"],
        ["pace", "slow: it shares a thread with its like" if cluster.engine.is_slow(channel.name)
         else "quick"],
        ["waits for", "nothing" if trouble is None else trouble.reason],
    ]  # fmt: skip
    if channel.mode == "real-time":
        rows.append(["matches waiting", cluster.matches_waiting])
    for run in cluster.store.runs.recent_runs(channel.name, 1):
        took_ms = 1000 * (run.ended_at - run.started_at)
        rows.append(["last run", f"{run.rows} results in {took_ms:.0f} ms"])
    losses = cluster.store.progress.losses(channel.name, MOST_LOSSES)
    rows.append(["last error", losses[0].cause if losses else "none"])
    for loss in losses:
        where = f"{loss.dataset} [{loss.first}, {loss.end})" if loss.dataset else "a run"
        rows.append(["gap", f"{where}, {loss.records} records: {loss.cause}"])
    failures = cluster.store.subscriptions.failures(channel.name)
    rows += [["set aside", f"backend subscription {n}: {why}"] for n, why in failures.items()]
    return rows


async def _query(session: Session, statement: sql.Query) -> StatementResult:
    answer = await session.cluster.query(statement.text)
    more = " (the first ones; there are more)" if answer.cut else ""
    return StatementResult("select", f"{len(answer.rows)} rows{more}", answer.columns, answer.rows)


def _columns(dataset: Dataset) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in dataset.columns)


def _parameters(channel: Channel) -> str:
    return ", ".join(f"{parameter.name} {parameter.type}" for parameter in channel.parameters)


def _subscription_rows(subscriptions: Sequence[Subscription]) -> tuple[list[str], list[list[Any]]]:
    columns = ["subscription", "subscriber", "channel", "arguments", "broker", "marker", "head"]
    columns.append("since")
    rows: list[list[Any]] = [
        [
            subscription.id,
            subscription.subscriber,
            subscription.backend.channel,
            subscription.backend.arguments,
            subscription.broker,
            subscription.marker,
            subscription.backend.head,
            subscription.backend.since,
        ]
        for subscription in subscriptions
    ]
    return columns, rows


_Handler = Callable[[Session, Any], Awaitable[StatementResult]]
_HANDLERS: dict[type[sql.Statement], tuple[tuple[str, ...], _Handler]] = {
    sql.CreateDataset: (("admin",), _create_dataset),
    sql.CreateChannel: (("admin",), _create_channel),
    sql.CreateBroker: (("admin", "broker"), _create_broker),
    sql.Drop: (("admin",), _drop),
    sql.Subscribe: (("subscribe", "admin"), _subscribe),
    sql.SubscribeToDataset: (("subscribe", "admin"), _subscribe_to_dataset),
    sql.Unsubscribe: (("subscribe", "admin"), _unsubscribe),
    sql.ChangeSubscription: (("subscribe", "admin"), _change_subscription),
    sql.Insert: (("publish",), _insert),
    sql.Show: ((), _show),
    sql.Describe: ((), _describe),
    sql.Query: (("admin",), _query),
}
