"""Datasets, channels and subscriptions as SHOW and DESCRIBE list them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.model import FILTERED, SUBSCRIBER, Channel, Dataset, Subscription
from tocsin.protocol.publishing import StatementResult
from tocsin.sql import described
from tocsin.storage.log.kafka import is_kafka
from tocsin.storage.log.segments.lost import read_lost
from tocsin.storage.store.store import Store

if TYPE_CHECKING:
    from tocsin.cluster.cluster import Cluster

MOST_LOSSES = 10  # that a description lists

Table = tuple[list[str], list[list[Any]]]
"""Names of columns, and rows."""


def dataset_table(datasets: Sequence[Dataset]) -> Table:
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
        for dataset in datasets
    ]
    return columns, rows


def channel_table(store: Store, channels: Sequence[Channel]) -> Table:
    columns = ["name", "kind", "parameters", "every s", "push", "backend subscriptions"]
    rows = [
        [
            channel.name,
            channel.kind,
            _parameters(channel),
            channel.period_s,
            channel.push,
            store.subscriptions.count_parameter_sets(channel.name),
        ]
        for channel in channels
    ]
    return columns, rows


def subscription_table(subscriptions: Sequence[Subscription]) -> Table:
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


def describe_dataset(cluster: Cluster, dataset: Dataset) -> StatementResult:
    rows: list[list[Any]] = [[column.name, column.type] for column in dataset.columns]
    files = cluster.tables.stored(dataset).files
    rows += [
        ["", ""],
        ["open", "yes: undeclared fields are in _extra" if dataset.open else "no"],
        ["primary key", ", ".join(dataset.primary_key) or "none"],
        ["retained", f"{dataset.retain_s:g} s" if dataset.retain_s else "forever"],
        *_fed(cluster, dataset),
        *_routed(cluster, dataset),
        ["log end", cluster.log.ends().get(dataset.name, 0)],
        ["stored end", cluster.tables.stored_end(dataset)],
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
        *(["bound", f"{b.column} TO CLAIM '{b.claim}'"] for b in dataset.bound),
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


def describe_channel(cluster: Cluster, channel: Channel) -> StatementResult:
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
    rows += [list(pair) for pair in cluster.engine.describe(channel)]
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


def _columns(dataset: Dataset) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in dataset.columns)


def _parameters(channel: Channel) -> str:
    return ", ".join(described(p) for p in channel.parameters if p != SUBSCRIBER)
