"""A cluster with everything but Spark: its routes, log and store are real. What Spark would make of
the log's older part is made here."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, Transaction, write_deltalake

from tocsin.cluster.cluster import Cluster
from tocsin.cluster.service import app
from tocsin.intake.formats import RawRecord
from tocsin.model import Column, Dataset
from tocsin.service.hosting import hosting, scheme
from tocsin.service.serving import listen, port_of
from tocsin.service.tls import certificate_of
from tocsin.settings import Settings
from tocsin.storage.log import PublicationLog, open_reader
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.store.store import Store
from tocsin.storage.tables.delta import DeltaFiles

SECRET = "a secret that only the tests know and nobody else"
ROUTED = Dataset(
    "contract_routed",
    (Column("key", "STRING"), Column("n", "BIGINT")),
    routed=True,
    created_at=1.0,
)


class NoEngine:
    """Takes every question: whether Spark could answer it is not asked here."""

    absence: str | None = None
    trouble: str | None = None

    def drop_dataset(self, dataset: Dataset) -> None:
        pass

    def drop(self, channel: str) -> None:
        pass

    def check_open(self, channel: str, mask: Any) -> None:
        pass

    def vouches(self, channel: str, arguments: Any) -> bool:
        return True

    def first_refused(self, channel: str, sets: Any) -> None:
        pass

    def subscribed(self, name: str) -> None:
        pass

    def stop(self) -> None:
        pass


class SparklessCluster(Cluster):
    url: str
    secret = SECRET

    async def _keep_engine(self) -> None:
        self._engine: Any = NoEngine()
        await asyncio.Event().wait()

    async def produce(self, key: str, count: int) -> None:
        raise NotImplementedError("channels need Spark")

    async def publish_all(self, dataset: str, records: list[dict[str, Any]]) -> None:
        given = [RawRecord(n, one) for n, one in enumerate(records, 1)]
        done = await self.publish(dataset, given, publisher="ann", source="test")
        assert done.accepted == len(records), done.errors

    def store_away(self, dataset: Dataset, *, keep: int = 0) -> None:
        """All but the newest `keep` records become files, and the log lets them go."""
        if isinstance(self.tables, DeltaFiles):
            add_to_table(self.tables, self.log, dataset, keep)
            return
        store_away(self.store, self.log, Path(self.settings.data) / "datasets", dataset, keep)


class ContractDriver:
    """As the contract of routing asks for it."""

    def __init__(self, cluster: SparklessCluster, stored: bool) -> None:
        self.url, self.secret = cluster.url, SECRET
        self._cluster = cluster
        self._stored = stored

    async def produce(self, key: str, count: int) -> None:
        await self._cluster.produce(key, count)

    async def publish(self, records: list[dict[str, Any]]) -> None:
        await self._cluster.publish_all(ROUTED.name, records)
        if self._stored:
            await asyncio.to_thread(self._cluster.store_away, ROUTED, keep=1)


@contextlib.asynccontextmanager
async def sparkless(directory: Path, **settings: Any) -> AsyncIterator[SparklessCluster]:
    given: dict[str, Any] = {"data": directory, "secret": SECRET} | settings
    wanted = Settings(**given)
    listener = listen("127.0.0.1", 0)
    with Store.open(wanted.store or f"sqlite:///{directory}/store.db") as store:
        cluster = SparklessCluster(wanted, store)
        async with cluster:
            cluster.url = f"{scheme(wanted)}://127.0.0.1:{port_of(listener)}"
            certificate = certificate_of(wanted)
            async with hosting(wanted, partial(app, cluster), listener, certificate):
                yield cluster
                cluster.routed.close()


def store_away(
    store: Store, log: PublicationLog, directory: Path, dataset: Dataset, keep: int = 0
) -> None:
    begin = store.files.stored_end(dataset.name)
    begin, end, newest, table = older_records(log, dataset, begin, keep)
    if table is None:
        return
    path = Path(dataset.name) / f"{begin}-{end}-{uuid.uuid4().hex[:8]}.parquet"
    (directory / dataset.name).mkdir(parents=True, exist_ok=True)
    pq.write_table(table, directory / path, row_group_size=3)
    size_bytes = (directory / path).stat().st_size
    added = DataFile(str(path), begin, end, table.num_rows, size_bytes, newest)
    store.files.replace(dataset.name, [], [added])
    log.retire(dataset.name, end)


def add_to_table(tables: DeltaFiles, log: PublicationLog, dataset: Dataset, keep: int = 0) -> None:
    """As Spark does it, by another writer of Delta."""
    _, end, _, table = older_records(log, dataset, tables.stored_end(dataset), keep)
    if table is None:
        return
    position = Transaction(tables.application(dataset), end)
    write_deltalake(
        tables.address.of(dataset.name),
        table,
        mode="append",
        storage_options=tables.address.storage_options(),
        commit_properties=CommitProperties(app_transactions=[position]),
    )
    tables.stored(dataset, anew=True)
    log.retire(dataset.name, end)


def older_records(
    log: PublicationLog, dataset: Dataset, stored_end: int, keep: int
) -> tuple[int, int, int, pa.Table | None]:
    """What is not stored but for the newest `keep`: from where, up to where, its newest time."""
    reader = open_reader(log.address)
    end = log.ends()[dataset.name]
    begin = stored_end or reader.first_position(dataset.name)
    lines = list(reader.lines(dataset.name, begin, end))
    reader.close()
    if keep and len(lines) > keep:
        end = lines[-keep][0]
    stored = [(at, msgspec.json.decode(body)) for at, body in lines if at < end]
    if not stored:
        return begin, begin, 0, None
    log.roll(dataset.name)
    random.Random(end).shuffle(stored)  # as Spark merges files: in no order in particular
    table = pa.table(
        {
            "_position": pa.array([at for at, _ in stored], pa.int64()),
            "_received_at": pa.array([body["t"] for _, body in stored], pa.int64()).cast(
                pa.timestamp("us", tz="UTC")
            ),
            **{
                column.name: [body["r"].get(column.name) for _, body in stored]
                for column in dataset.columns
            },
        }
    )
    return begin, end, max(body["t"] for _, body in stored), table
