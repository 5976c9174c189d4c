"""A system with a bit of everything, and what of it must be in a backup."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from cluster.sparkless import SparklessCluster
from tocsin.cluster.attachments.attachment_store import AttachmentStore
from tocsin.model import Channel, Column, Dataset, Parameter, Result
from tocsin.protocol.backup import Manifest
from tocsin.settings import Settings
from tocsin.storage.backup.comparison import Compared
from tocsin.storage.backup.making import Backup
from tocsin.storage.backup.places import Places
from tocsin.storage.backup.restoring import Restore
from tocsin.storage.store.progress import Progress as ChannelProgress
from tocsin.storage.store.runs import Run

REPORTS = Dataset("reports", (Column("n", "BIGINT"),), created_at=1.0)
ROUTED = Dataset("alarms", (Column("n", "BIGINT"),), routed=True, created_at=1.0)
CHANNEL = Channel("c", "continuous", (Parameter("t", "STRING"),), "", ("reports",), ("reports",))
FLOOD = {"t": "flood"}
PHOTO = b"\x89PNG " + bytes(range(256)) * 40


class Silent:
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


def places(data: Path, **settings: Any) -> Places:
    return Places.of(Settings(data=data, **settings))


def back_up(data: Path, root: Path, **settings: Any) -> Manifest:
    with Backup(places(data, **settings), root, Silent()) as backup:
        return backup.make()


def restore(root: Path, data: Path, **settings: Any) -> list[Compared]:
    return Restore(root, places(data, **settings), Silent()).run()


async def furnish(cluster: SparklessCluster) -> None:
    """Datasets of which one is partly Parquet, a channel, a grant, an attachment."""
    for dataset in (REPORTS, ROUTED):
        await cluster.create_dataset(dataset)
    cluster.store.catalog.create_channel(CHANNEL)
    cluster.store.grants.create_role("watch")
    cluster.store.grants.grant("watch", ["subscribe"], "c")
    await cluster.publish_all("reports", [{"n": n} for n in range(20)])
    await cluster.publish_all("alarms", [{"n": n} for n in range(5)])
    cluster.store_away(REPORTS, keep=3)
    cluster.store_away(ROUTED)
    await cluster.publish_all("reports", [{"n": n} for n in range(20, 25)])
    await asyncio.to_thread(put, cluster.attachments, PHOTO)


def put(attachments: AttachmentStore, data: bytes) -> None:
    incoming = attachments.content.receive()
    incoming.write(data)
    attachments.commit(incoming, None)


def subscribe(cluster: SparklessCluster, subscriber: str, arguments: Any = FLOOD) -> int:
    made, _ = cluster.store.subscriptions.subscribe(subscriber, "c", arguments, None)
    return made.id


def find(cluster: SparklessCluster, subscription: int, payload: bytes) -> None:
    """A run looks at all that is in the log, and has one result."""
    store, end = cluster.store, cluster.log.ends()["reports"]
    backend = store.subscriptions.get(subscription).backend.id
    now = store.now()
    run = Run("c", payload.decode(), now, now, ends={"reports": end})
    assert store.runs.commit_run(run, [(backend, payload)]) is not None
    store.progress.put("c", ChannelProgress({"reports": end}, int(now * 1e6)))


def acknowledge(cluster: SparklessCluster, subscription: int) -> None:
    backend = cluster.store.subscriptions.get(subscription).backend
    cluster.store.subscriptions.put_markers([(subscription, backend.epoch, backend.head)])


def missed(cluster: SparklessCluster, subscription: int) -> list[Result]:
    """What a subscriber gets who comes back."""
    known = cluster.store.subscriptions.get(subscription)
    backend = known.backend
    return list(cluster.store.results.read(backend.id, known.marker, backend.head, 10**6).results)


def records(cluster: SparklessCluster, dataset: Dataset) -> list[int]:
    """All of a dataset, from Parquet and from the log."""
    kept = cluster.routing.log_range(dataset.name, 0, None, 10**6).records
    return [msgspec.json.decode(logged.record)["n"] for logged in kept]
