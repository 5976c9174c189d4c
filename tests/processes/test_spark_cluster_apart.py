"""A Spark cluster of other machines: datasets in S3, records from Kafka, the store in PostgreSQL,
and no file that driver and workers share."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from msgspec.structs import replace

from real_servers import RealServers, skip_or_fail
from tocsin.client import Client
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.s3 import S3
from tocsin.settings import Settings
from tocsin.storage.tables.address import TableAddress
from tocsin.system import System

from .apart import HERE, ApartCluster, lacking, network
from .load import short_lived, under_load

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

COUNTS = "SELECT kind, count(*) AS n, count(DISTINCT id) AS ids FROM reports GROUP BY kind"


@pytest.fixture
def apart(
    real_servers: RealServers,
    kafka: Kafka,
    postgresql: PostgreSQL,
    s3: S3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ApartCluster]:
    reason = lacking()
    if reason is not None:
        skip_or_fail(reason)
    monkeypatch.setenv("SPARK_LOCAL_IP", HERE)
    ports = [kafka.port, postgresql.port, s3.port]
    with network(f"tocsin{uuid.uuid4().hex[:6]}", ports) as namespace:
        hidden = tmp_path.parents[1], kafka.home.parent
        attributes = {"namespace": namespace, "hidden": hidden}
        kind: type[ApartCluster] = type("Apart", (ApartCluster,), attributes)
        cluster = real_servers.start(kind)
        try:
            yield cluster
        finally:
            real_servers.started.remove(cluster)
            cluster.kill()


async def counts(system: System) -> list[Any]:
    token = system.token("maria", "admin")
    async with Client(system.coordinator_url, cluster=system.cluster_url, token=token) as admin:
        (answer,) = await admin.sql(COUNTS)
        return sorted(answer.rows)


async def test_workers_without_a_file_of_ours_find_the_same_and_one_may_die(
    apart: ApartCluster, kafka: Kafka, postgresql: PostgreSQL, s3: S3, tmp_path: Path
) -> None:
    tables = s3.fresh().replace("?", "/datasets?")
    settings = short_lived(
        tmp_path / "data",
        master=apart.master_url,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        tables=tables,
        real_time_slots=0,
    )
    async with under_load(settings, publishers=2) as load:
        await asyncio.to_thread(apart.kill_worker)
        await load.growing()
        await asyncio.to_thread(apart.add_worker)
        await load.growing()
        await load.judge()
        found = await counts(load.system)
        stored = await until_stored(settings, sum(row[1] for row in found))
    assert all(row[1] == row[2] for row in found), "something was doubled"
    assert stored == sum(row[1] for row in found)
    async with System(replace(settings, master="local[*]")) as here:
        assert await counts(here) == found


async def until_stored(settings: Settings, count: int) -> int:
    """How many records the table has, when all are there."""
    address, rows = TableAddress.parse(settings.tables), 0
    for _ in range(120):
        with contextlib.suppress(TableNotFoundError):  # nothing was flushed yet
            table = DeltaTable(address.of("reports"), storage_options=address.storage_options())
            rows = table.to_pyarrow_table(columns=["_position"]).num_rows
        if rows >= count:
            break
        await asyncio.sleep(0.5)
    return rows
