"""A standalone cluster whose workers come and go."""

from __future__ import annotations

import pytest

from real_servers import RealServers
from tocsin.dev.spark import SparkCluster
from tocsin.errors import NotFound

pytestmark = pytest.mark.processes


def test_workers_are_killed_and_replaced_and_the_master_knows(
    spark_cluster: SparkCluster, real_servers: RealServers
) -> None:
    assert spark_cluster.master_url.startswith("spark://127.0.0.1:")
    assert spark_cluster.alive_workers() == 2
    process = spark_cluster.processes[spark_cluster.workers[0]]
    killed = spark_cluster.kill_worker()
    assert not process.alive
    assert spark_cluster.alive_workers() == 1
    with pytest.raises(NotFound, match=killed):
        spark_cluster.kill_worker(killed)
    real_servers.heal()
    assert spark_cluster.alive_workers() == 2
    assert killed not in spark_cluster.workers
