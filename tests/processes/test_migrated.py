"""`tocsin migrate`, Spark and all: a system of files goes on, on Kafka and a database."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from backup.system import subscribe
from cluster.sparkless import SECRET, sparkless
from real_servers import RealServers
from tocsin.client import Client, Subscription
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.model import Channel, Column, Dataset, Parameter
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.storage.store.progress import Progress
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

REPORTS = Dataset("reports", (Column("t", "STRING"), Column("n", "BIGINT")), created_at=1.0)
QUERY = "SELECT r.n FROM NEW reports r WHERE r.t = :t"
CHANNEL = Channel("c", "continuous", (Parameter("t", "STRING"),), QUERY, ("reports",), ("reports",))


async def in_files(data: Path) -> None:
    """A system that its channel is behind of: three floods have not been looked at."""
    async with sparkless(data) as cluster:
        await cluster.create_dataset(REPORTS)
        await cluster.publish_all("reports", [{"t": "flood", "n": -1}])
        cluster.store.catalog.create_channel(CHANNEL)
        subscribe(cluster, "ann")
        now_us = int(cluster.clock.now() * 1e6)
        cluster.store.progress.put("c", Progress(dict(cluster.log.ends()), now_us))
        await cluster.publish_all("reports", [{"t": "flood", "n": n} for n in range(3)])
        await cluster.publish_all("reports", [{"t": "fire", "n": 9}])


def migrate(data: Path, settings: Settings) -> str:
    """What the command prints."""
    file = data.with_suffix(".toml")
    names = ("data", "log", "store")
    file.write_text("".join(f'{name} = "{getattr(settings, name)}"\n' for name in names))
    words = ["migrate", "--from", str(data), "--to", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", *words],
        env=os.environ | {"TOCSIN_JAVA_OPTIONS": SHORT_LIVED_JAVA},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_migrated_system_goes_on_where_it_was(
    real_servers: RealServers, tmp_path: Path
) -> None:
    kafka, postgresql = real_servers.start(Kafka), real_servers.start(PostgreSQL)
    (tmp_path / "files").mkdir()
    await in_files(tmp_path / "files")
    settings = Settings(
        data=tmp_path / "company",
        secret=SECRET,
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        log=f"{kafka.url}/t{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=1.0,
    )
    moved = migrate(tmp_path / "files", settings)
    assert "stored\treports\t5\t5\t" in moved
    assert "log\treports\t0\t0\t" in moved

    async with System(settings) as system:
        token = system.token("ann", "admin", "publish", "subscribe")
        async with Client(
            system.coordinator_url, cluster=system.cluster_url, token=token
        ) as client:
            ann = await client.subscribe("c", t="flood")
            assert await take(ann, 3) == [0, 1, 2]
            await client.sql(f"CREATE CONTINUOUS CHANNEL quick(t STRING) AS {QUERY}")
            [described] = await client.sql("DESCRIBE CHANNEL quick")
            assert str(dict(described.rows)["mode"]).startswith("real-time")
            quick = await client.subscribe("quick", t="flood")
            await client.publish("reports", {"t": "flood", "n": 3})
            assert await take(ann, 1) == [3]
            assert await take(quick, 1) == [3]
            [counted] = await client.sql("SELECT count(*) AS n FROM reports")
            assert [list(row) for row in counted.rows] == [[6]]


async def take(subscription: Subscription, count: int) -> list[int]:
    async with asyncio.timeout(90):
        return [(await anext(subscription)).value["n"] for _ in range(count)]
