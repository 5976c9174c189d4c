"""Channels on a real Spark cluster: a master and two workers, processes of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tocsin.dev.spark import SparkCluster

from .load import short_lived, under_load

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


async def test_killing_a_worker_in_mid_stream_loses_and_doubles_nothing(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    settings = short_lived(tmp_path, master=spark_cluster.master_url)
    async with under_load(settings, publishers=2) as load:
        await asyncio.to_thread(spark_cluster.kill_worker)
        await load.growing()
        await asyncio.to_thread(spark_cluster.add_worker)
        await load.growing()
        await load.judge()
        assert all(load.system.restarts(name) == 0 for name in load.system.names)
