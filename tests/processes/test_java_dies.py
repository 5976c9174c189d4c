"""Spark's Java process is killed, or hangs, under load: it is noticed, another is started without
a person, and nobody misses anything. What is published right after a subscription was made counts
too."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import httpx
import msgspec
import psutil
import pytest

from tocsin.settings import Settings
from tocsin.system import System

from .load import under_load

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


def java_of(system: System) -> int:
    """The process id of the cluster's Java."""
    children = psutil.Process(system.pid("cluster")).children()
    return next(child.pid for child in children if child.name() == "java")


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
    settings = msgspec.structs.replace(profile, java_limit_s=5.0)
    async with under_load(settings) as load:
        ways = [signal.SIGKILL] if profile.log else [signal.SIGKILL, signal.SIGSTOP]
        for way in ways:
            java = await stopped(load.system, way)
            await load.growing()  # the log needs no Spark
            await load.system.ready("cluster")
            assert java_of(load.system) != java
            await load.growing()
        await load.judge()
        assert load.system.restarts("cluster") == 0
        assert (await status(load.system))[0] == 200
