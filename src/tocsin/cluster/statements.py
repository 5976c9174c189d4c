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

from tocsin import language as sql
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
from tocsin.overlay.filters import told
from tocsin.service.tokens import Identity
from tocsin.storage.log.kafka import is_kafka
from tocsin.storage.log.segments.lost import read_lost

if TYPE_CHECKING:
    from tocsin.cluster.cluster import Cluster


MOST_LOSSES = 10  # that a description lists


class Outcome(Struct, frozen=True, omit_defaults=True):
    """What one statement did, or the rows it asked for."""

    statement: str
    message: str = ""
    columns: list[str] = []
    rows: list[list[Any]] = []


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
) -> list[Outcome]:
    """Run the statements in order. A text that does not parse runs nothing; a statement that fails
    stops those after it, and the error says which were done."""
    person = subscriber or identity.subject
    if person != identity.subject and not identity.scopes & {"admin", "broker"}:
        raise Forbidden("only an admin may speak for another subscriber", field="subscriber")
    session = Session(cluster, identity, person, text, key)
    statements = sql.parse(text)
    for statement in statements:
        identity.require(*_HANDLERS[type(statement)][0])
    done: list[Outcome] = []
    for statement in statements:
        try:
            done.append(await _HANDLERS[type(statement)][1](session, statement))
        except StatementError as error:
            if error.line is None and len(statements) > 1:
                error.line, error.column = statement.line, statement.column
            raise
    return done


async def _create_dataset(session: Session, asked: sql.CreateDataset) -> Outcome:
    dataset = Dataset(
        name=asked.name,
        columns=asked.columns,
        open=asked.open,
        primary_key=asked.primary_key,
        retain_s=asked.retain_s,
        created_at=time.time(),
        source=asked.source,
        routed=asked.routed,
    )
    return await _create(
        "dataset", asked.name, asked.if_not_exists, session.cluster.create_dataset(dataset)
    )


async def _create_channel(session: Session, asked: sql.CreateChannel) -> Outcome:
    creating = session.cluster.create_channel(asked)
    return await _create("channel", asked.name, asked.if_not_exists, creating)


async def _create_broker(session: Session, asked: sql.CreateBroker) -> Outcome:
    creating = session.cluster.create_broker(asked.name, asked.url)
    return await _create("broker", asked.name, asked.if_not_exists, creating)


async def _create(kind: str, name: str, if_not_exists: bool, creating: Awaitable[None]) -> Outcome:
    try:
        await creating
    except Conflict:
        if not if_not_exists:
            raise
        return Outcome(f"create {kind}", f"{kind} {name} was there already")
    return Outcome(f"create {kind}", f"{kind} {name} created")


async def _drop(session: Session, asked: sql.Drop) -> Outcome:
    cluster = session.cluster
    drop = {
        "dataset": cluster.drop_dataset,
        "channel": cluster.drop_channel,
        "broker": cluster.drop_broker,
    }[asked.kind]
    try:
        await drop(asked.name)
    except NotFound:
        if not asked.if_exists:
            raise
        return Outcome(f"drop {asked.kind}", f"there was no {asked.kind} {asked.name}")
    return Outcome(f"drop {asked.kind}", f"{asked.kind} {asked.name} dropped")


async def _subscribe(session: Session, asked: sql.Subscribe) -> Outcome:
    return await _subscribed(session, asked, asked.channel, asked.arguments)


async def _subscribe_to_dataset(session: Session, asked: sql.SubscribeToDataset) -> Outcome:
    dataset = await asyncio.to_thread(session.cluster.store.catalog.dataset, asked.dataset)
    where = told(sql.bind_filter(asked.where, dataset))  # with the place of what is wrong in it
    return await _subscribed(session, asked, FILTERED + asked.dataset, {"where": where})


async def _subscribed(
    session: Session,
    asked: sql.Subscribe | sql.SubscribeToDataset,
    channel: str,
    arguments: list[Any] | dict[str, Any],
) -> Outcome:
    made = await session.cluster.subscribe(
        session.subscriber, channel, arguments, asked.broker, asked.beginning
    )
    present = await asyncio.to_thread(session.cluster.routing.present, [made])
    columns, rows = _subscription_rows(present)
    return Outcome("subscribe", f"subscription {made.id}", columns, rows)


async def _unsubscribe(session: Session, asked: sql.Unsubscribe) -> Outcome:
    owner = None if "admin" in session.identity.scopes else session.subscriber
    await session.cluster.unsubscribe(asked.subscription, owner)
    return Outcome("unsubscribe", f"subscription {asked.subscription} ended")


async def _change_subscription(session: Session, asked: sql.ChangeSubscription) -> Outcome:
    await _own(session, asked.subscription)
    await session.cluster.move(asked.subscription, asked.broker)
    return Outcome("change subscription", f"subscription {asked.subscription} is at {asked.broker}")


async def _own(session: Session, number: int) -> None:
    """A subscription of somebody else looks like one that does not exist."""
    found = await asyncio.to_thread(session.cluster.store.subscriptions.get, number)
    if found.subscriber != session.subscriber and "admin" not in session.identity.scopes:
        raise NotFound(f"there is no subscription {number}", field="subscription")


async def _insert(session: Session, asked: sql.Insert) -> Outcome:
    dataset = await asyncio.to_thread(session.cluster.store.catalog.dataset, asked.dataset)
    records = [
        RawRecord(line, fields) for line, fields in enumerate(asked.records(dataset), start=1)
    ]
    published = await session.cluster.publish(
        asked.dataset,
        records,
        publisher=session.identity.subject,
        source="insert",
        key=_key(session, asked),
    )
    if published.rejected and not published.accepted:
        first = published.errors[0]
        raise RecordError(f"row {first.line}: {first.reason}", field=first.field)
    columns = ["row", "field", "reason"] if published.errors else []
    rows = [[error.line, error.field, error.reason] for error in published.errors]
    message = f"{published.accepted} accepted, {published.rejected} refused"
    return Outcome("insert", message, columns, rows)


def _key(session: Session, asked: sql.Insert) -> str | None:
    if session.key is None:
        return None
    place = f"insert at {asked.line}, {asked.column}"  # a text may hold the same one twice
    return request_key(session.key, session.identity.subject, place, session.text.encode())


async def _show(session: Session, asked: sql.Show) -> Outcome:
    return await asyncio.to_thread(_shown, session, asked)


def _shown(session: Session, asked: sql.Show) -> Outcome:
    store = session.cluster.store
    if asked.what == "datasets":
        columns = ["name", "columns", "open", "primary key", "retain s", "routed"]
        rows = [
            [
                one.name,
                _columns(one),
                one.open,
                ", ".join(one.primary_key),
                one.retain_s,
                one.routed,
            ]
            for one in store.catalog.datasets()
        ]
    elif asked.what == "channels":
        columns = ["name", "kind", "parameters", "every s", "push", "backend subscriptions"]
        counts = store.subscriptions.count_parameter_sets
        rows = [
            [one.name, one.kind, _parameters(one), one.period_s, one.push, counts(one.name)]
            for one in store.catalog.channels()
        ]
    elif asked.what == "brokers":
        columns = ["name", "url"]
        rows = [[one.name, one.url] for one in store.catalog.brokers()]
    else:
        everybody = "admin" in session.identity.scopes
        found = (
            store.subscriptions.all_()
            if everybody
            else store.subscriptions.of_subscriber(session.subscriber)
        )
        columns, rows = _subscription_rows(session.cluster.routing.present(found))
    return Outcome(f"show {asked.what}", "", columns, rows)


async def _describe(session: Session, asked: sql.Describe) -> Outcome:
    return await asyncio.to_thread(_described, session, asked)


def _described(session: Session, asked: sql.Describe) -> Outcome:
    catalog = session.cluster.store.catalog
    if asked.kind != "channel":
        with contextlib.suppress(NotFound):
            return _describe_dataset(session.cluster, catalog.dataset(asked.name))
        if asked.kind == "dataset":
            catalog.dataset(asked.name)
    return _describe_channel(session.cluster, catalog.channel(asked.name))


def _describe_dataset(cluster: Cluster, dataset: Dataset) -> Outcome:
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
        ["files", f"{len(files)} with {sum(one.rows for one in files)} records"],
        *_lost(cluster, dataset),
    ]
    return Outcome("describe dataset", dataset.name, ["name", "value"], rows)


def _lost(cluster: Cluster, dataset: Dataset) -> list[list[Any]]:
    """What repairs of the log gave up."""
    if is_kafka(cluster.log.address):
        return []
    lost = read_lost(Path(cluster.log.address), dataset.name)
    ranges = ", ".join(f"[{one.first}, {one.end})" for one in lost)
    records = sum(one.records for one in lost)
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


def _describe_channel(cluster: Cluster, channel: Channel) -> Outcome:
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
    return Outcome("describe channel", channel.name, ["name", "value"], rows)


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


async def _query(session: Session, asked: sql.Query) -> Outcome:
    found = await session.cluster.query(asked.text)
    more = " (the first ones; there are more)" if found.cut else ""
    return Outcome("select", f"{len(found.rows)} rows{more}", found.columns, found.rows)


def _columns(dataset: Dataset) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in dataset.columns)


def _parameters(channel: Channel) -> str:
    return ", ".join(f"{parameter.name} {parameter.type}" for parameter in channel.parameters)


def _subscription_rows(found: Sequence[Subscription]) -> tuple[list[str], list[list[Any]]]:
    columns = ["subscription", "subscriber", "channel", "arguments", "broker", "marker", "head"]
    columns.append("since")
    rows: list[list[Any]] = [
        [
            one.id,
            one.subscriber,
            one.backend.channel,
            one.backend.arguments,
            one.broker,
            one.marker,
            one.backend.head,
            one.backend.since,
        ]
        for one in found
    ]
    return columns, rows


_Handler = Callable[[Session, Any], Awaitable[Outcome]]
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
