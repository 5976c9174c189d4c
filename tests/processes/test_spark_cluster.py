"""The pipeline on a real Spark cluster: a master and two workers, processes of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tocsin.client import Client
from tocsin.dev.spark import SparkCluster
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

from .load import STATEMENTS, Publisher, assert_promises, audience, growing, until_quiet

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


async def test_killing_a_worker_in_mid_stream_loses_and_doubles_nothing(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    settings = Settings(
        data=tmp_path, master=spark_cluster.master_url, java_options=SHORT_LIVED_JAVA, warm_up=False
    )
    async with System(settings) as system:
        admin = Client(cluster=system.cluster_url, token=system.token("admin", "admin"))
        await admin.sql(STATEMENTS)
        listeners = audience(system)
        await asyncio.gather(*(listener.start() for listener in listeners))
        publisher = Publisher(system)
        publishing = [asyncio.create_task(publisher.run(number)) for number in range(2)]
        await growing(publisher)
        await asyncio.to_thread(spark_cluster.kill_worker)
        await growing(publisher)
        await asyncio.to_thread(spark_cluster.add_worker)
        await growing(publisher)
        publisher.stopping = True
        await asyncio.gather(*publishing)
        await publisher.close()
        await until_quiet(listeners, publisher)
        await assert_promises(listeners, publisher, admin)
        assert all(system.restarts(name) == 0 for name in system.names)
        await asyncio.gather(*(listener.stop() for listener in listeners))
        await admin.close()
