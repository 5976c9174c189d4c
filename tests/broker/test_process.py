"""The broker and the coordinator as processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.world import World, token, until
from tocsin.client import Client
from tocsin.lab.trace import EventTrace, read_trace
from tocsin.lab.trace.recording import record
from tocsin.service.serving import listen, port_of
from tocsin.testing.fake_cluster import SECRET, FakeCluster

pytestmark = pytest.mark.processes

START = "import uvloop, {module}, tocsin.settings as s; uvloop.run({module}.run(s.load()))"


def free_port() -> int:
    listener = listen("127.0.0.1", 0)
    port = port_of(listener)
    listener.close()
    return port


async def start(module: str, **settings: Any) -> asyncio.subprocess.Process:
    given = {"secret": SECRET, "log_format": "json"} | settings
    environ = {f"TOCSIN_{key.upper()}": str(value) for key, value in given.items()}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        START.format(module=module),
        env=os.environ | environ,
        stderr=asyncio.subprocess.PIPE,
    )


async def line_with(process: asyncio.subprocess.Process, text: str) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while True:
            line = (await process.stderr.readline()).decode()
            assert line, f"the process ended without saying {text!r}"
            if text in line:
                return line


async def until_acknowledged(broker: str, bearer: str) -> None:
    """Wait until the broker has the acknowledgement, though not yet the cluster."""
    headers = {"authorization": f"Bearer {bearer}"}
    async with httpx.AsyncClient(base_url=broker, headers=headers) as http, asyncio.timeout(20):
        while True:
            (told,) = (await http.get("/v1/subscriptions")).json()["subscriptions"]
            if told["marker"] == 1:
                return
            await asyncio.sleep(0.02)


async def test_a_broker_waits_for_its_cluster_and_stops_gracefully() -> None:
    cluster_port, rest_port, ws_port = free_port(), free_port(), free_port()
    cluster = FakeCluster()
    process = await start(
        "tocsin.broker.server",
        cluster_url=f"http://127.0.0.1:{cluster_port}",
        broker_port=rest_port,
        broker_ws_port=ws_port,
        marker_flush_s=30,
    )
    try:
        await line_with(process, f"waiting for the cluster at http://127.0.0.1:{cluster_port}")
        async with cluster.serve(cluster_port):
            await line_with(process, "broker ready")
            async with Client(broker=f"http://127.0.0.1:{rest_port}", token=token("a")) as client:
                floods = await client.subscribe("floods", type="flood")
                cluster.produce("floods", {"type": "flood"}, [{"n": 1}])
                result = await anext(floods)
                floods.ack(result)
                await until_acknowledged(f"http://127.0.0.1:{rest_port}", token("a"))
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
            assert cluster.marker("a") == 1
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_recording_of_a_killed_broker_is_finished(world: World, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "trace.parquet"
    process = await start(
        "tocsin.broker.server",
        cluster_url=world.cluster.url,
        broker_port=port,
        broker_ws_port=free_port(),
    )
    seen: list[int] = []
    try:
        await line_with(process, "broker ready")
        url = f"http://127.0.0.1:{port}"
        async with Client(broker=url, token=token("a")) as client:
            floods = await client.subscribe("floods", type="flood")
            recorder = asyncio.create_task(
                record(
                    url, token("op", "admin"), file, progress=lambda events, _: seen.append(events)
                )
            )
            await until(lambda: seen and seen[-1] >= 2)  # subscribed and online
            world.cluster.produce("floods", {"type": "flood"}, [{"n": 1}])
            await anext(floods)
            await until(lambda: seen[-1] > 2)
            process.kill()
            ended = await recorder
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert "the broker is gone" in ended.ended
    trace = read_trace(file)
    assert isinstance(trace, EventTrace)
    assert trace.about.finished
    assert (len(trace), trace.counts()["publish"]) == (ended.events, 1)


async def test_a_wrong_secret_ends_the_broker_with_the_reason(world: World) -> None:
    process = await start(
        "tocsin.broker.server",
        cluster_url=world.cluster.url,
        broker_port=0,
        broker_ws_port=0,
        secret="another secret than the one that the cluster has",
    )
    try:
        await line_with(process, "token is not valid")
        assert await process.wait() != 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_killed_coordinator_is_right_again_after_one_heartbeat(world: World) -> None:
    port = free_port()
    world.coordinator_url = f"http://127.0.0.1:{port}"
    headers = {"authorization": f"Bearer {token('alice')}"}
    process = await start("tocsin.coordinator", coordinator_port=port, heartbeat_s=0.5)
    try:
        await line_with(process, "coordinator ready")
        await world.broker("one")
        await world.broker("two")
        process.kill()
        await process.wait()
        process = await start("tocsin.coordinator", coordinator_port=port, heartbeat_s=0.5)
        await line_with(process, "coordinator ready")
        async with httpx.AsyncClient(base_url=world.coordinator_url, headers=headers) as http:
            names: set[str] = set()
            async with asyncio.timeout(20):
                while names != {"one", "two"}:
                    told = (await http.get("/v1/brokers")).json()["brokers"]
                    names = {broker["name"] for broker in told if broker["alive"]}
                    await asyncio.sleep(0.05)
            assert (await http.get("/v1/broker")).json()["name"] in names
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
