"""Spark's Java process is killed, or hangs, under load: it is noticed, another is started without
a person, and nobody misses anything. What is published right after a subscription was made counts
too."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tocsin.client import Client
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

from .load import STATEMENTS, Publisher, assert_promises, audience, growing, until_quiet

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


@pytest.fixture(params=["embedded", "company"])
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    settings = Settings(
        data=tmp_path,
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        flush_interval_s=2.0,
        java_limit_s=5.0,
    )
    if request.param == "embedded":
        return settings
    kafka, postgresql = (request.getfixturevalue(name) for name in ("kafka", "postgresql"))
    return msgspec.structs.replace(
        settings,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=2.0,
    )


def java_of(system: System) -> int:
    """The process id of the cluster's Java."""
    cluster = system.pid("cluster")
    found = subprocess.run(
        ["pgrep", "-P", str(cluster), "java"], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[0])


async def status(system: System) -> tuple[int, dict[str, Any]]:
    """Of health, and what the cluster says of itself."""
    async with httpx.AsyncClient(timeout=5.0) as http:
        health = await http.get(f"{system.cluster_url}/healthz")
        said: dict[str, Any] = (await http.get(f"{system.cluster_url}/v1/status")).json()
        return health.status_code, said


async def stopped(system: System, sent: signal.Signals) -> int:
    """Java, that is; returns when the cluster has noticed."""
    java = java_of(system)
    os.kill(java, sent)
    began = time.monotonic()
    while (await status(system))[1]["ready"]:
        assert time.monotonic() - began < 15
        await asyncio.sleep(0.2)
    health, said = await status(system)
    assert health == 503
    assert said["trouble"]
    return java


async def test_dead_java_is_told_at_once_and_costs_nobody_a_result(profile: Settings) -> None:
    async with System(profile, brokers=1) as system:
        admin = Client(cluster=system.cluster_url, token=system.token("admin", "admin"))
        await admin.sql(STATEMENTS)
        listeners = audience(system)
        await asyncio.gather(*(listener.start() for listener in listeners))
        publisher = Publisher(system)
        publishing = [asyncio.create_task(publisher.run(number)) for number in range(3)]
        await growing(publisher)
        ways = [signal.SIGKILL] if profile.log else [signal.SIGKILL, signal.SIGSTOP]
        for way in ways:
            java = await stopped(system, way)
            await growing(publisher)  # the log needs no Spark
            await system.ready("cluster")
            assert java_of(system) != java
            await growing(publisher)
        publisher.stopping = True
        await asyncio.gather(*publishing)
        await publisher.close()
        await until_quiet(listeners, publisher)

        await assert_promises(listeners, publisher, admin)
        assert system.restarts("cluster") == 0
        assert (await status(system))[0] == 200
        await asyncio.gather(*(listener.stop() for listener in listeners))
        await admin.close()
