"""Whoever has shown no token costs a service little, and keeps nobody else out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from msgspec import structs
from websockets.asyncio.client import ClientConnection, connect

from broker.world import token
from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.dev.certificates import make_certificates
from tocsin.testing.fake_cluster import SECRET, FakeCluster

pytestmark = pytest.mark.processes

FILES = 256
"""The most files that a service under test may have open."""
ALLOWED_BYTES = 48 * 1024 * 1024
SILENT = 2000
START = f"""import resource, sys, uvloop, {{module}}, tocsin.settings as s
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
uvloop.run({{module}}.run(s.load()))"""


class Service:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        log: Path,
        ports: list[int],
        authority: str,
    ) -> None:
        self.process = process
        self.log = log
        self.ports = ports
        self.authority = authority
        self.trusted = tls(authority) if authority else None
        self.url = f"http{'s' if authority else ''}://127.0.0.1:{ports[0]}"

    @property
    def memory_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    async def healthy_in_s(self) -> float:
        """How long a newcomer waits for an answer."""
        began = time.monotonic()
        async with httpx.AsyncClient(timeout=5, verify=self.trusted or True) as http:
            answer = await http.get(f"{self.url}/healthz")
        assert answer.status_code in (200, 503), answer.text  # 503: Spark is still starting
        return time.monotonic() - began


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]


@contextlib.asynccontextmanager
async def service(
    module: str, folder: Path, ports: dict[str, int], **settings: Any
) -> AsyncIterator[Service]:
    given = {"secret": SECRET, "log_format": "json", "data": folder} | ports | settings
    environ = {f"TOCSIN_{key.upper()}": str(value) for key, value in given.items()}
    log = folder / "service.log"
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            START.format(module=module),
            env=os.environ | environ,
            stdout=sink,
            stderr=sink,
        )
    try:
        started = Service(process, log, list(ports.values()), str(settings.get("authority", "")))
        await _until_healthy(started)
        yield started
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.kill()
        await process.wait()


async def _until_healthy(started: Service) -> None:
    async with asyncio.timeout(60):
        while True:
            assert started.process.returncode is None, started.log.read_text()
            with contextlib.suppress(httpx.HTTPError, AssertionError):
                await started.healthy_in_s()
                return
            await asyncio.sleep(0.05)


@pytest.fixture(params=["broker", "coordinator", "gateway", "cluster"])
async def running(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    ports = free_ports(2)
    if "broker" in request.param:
        async with FakeCluster().serve() as cluster:
            listening = {"broker_port": ports[0], "broker_ws_port": ports[1]}
            settings: dict[str, Any] = {"cluster_url": cluster.url}
            if request.param == "secured broker":
                settings |= structs.asdict(make_certificates(tmp_path / "certificates"))
            async with service("tocsin.broker.server", tmp_path, listening, **settings) as broker:
                yield broker
    elif request.param == "coordinator":
        async with service(
            "tocsin.coordinator", tmp_path, {"coordinator_port": ports[0]}
        ) as coordinator:
            yield coordinator
    elif request.param == "gateway":
        place = {"gateway_port": ports[0]}
        nobody = {"cluster_url": "http://127.0.0.1:1"}
        async with service("tocsin.gateway", tmp_path, place, **nobody) as gateway:
            yield gateway
    else:
        async with service(
            "tocsin.cluster.service", tmp_path, {"cluster_port": ports[0]}, warm_up=False
        ) as cluster_service:
            yield cluster_service


@contextlib.contextmanager
def silent_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Opened and never used. Those that the service refuses or closes stay with us."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            opened.append(connection)
        yield opened


async def test_silent_connections_keep_nobody_out(running: Service) -> None:
    before_bytes = running.memory_bytes
    for port in running.ports:
        for _ in range(2):  # opened again and again
            with silent_connections(port, SILENT):
                for _ in range(5):
                    assert await running.healthy_in_s() < 4
    assert running.memory_bytes - before_bytes < ALLOWED_BYTES
    assert running.log.stat().st_size < 20_000, running.log.read_text()[:2000]


@contextlib.contextmanager
def unfinished_notices(port: int, count: int, size_bytes: int) -> Iterator[list[socket.socket]]:
    """As much of each is sent as the service takes."""
    stamp = int(time.time())
    head = (
        "POST /v1/notices HTTP/1.1\r\nhost: a\r\n"
        f"tocsin-signature: t={stamp},v1={'0' * 64}\r\ncontent-length: {size_bytes}\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(head.encode())
            connection.setblocking(False)
            opened.append(connection)
        yield opened


async def send(connections: list[socket.socket], size_bytes: int) -> None:
    """All but the last byte, to whoever still takes it."""
    piece = b" " * 256 * 1024
    left = {connection: size_bytes - 1 for connection in connections}
    until = time.monotonic() + 8
    while left and time.monotonic() < until:
        for connection in list(left):
            try:
                left[connection] -= connection.send(piece[: left[connection]])
            except BlockingIOError:
                continue
            except OSError:
                del left[connection]
                continue
            if left[connection] <= 0:
                del left[connection]
        await asyncio.sleep(0)


MIB = 1024 * 1024


@pytest.mark.parametrize("running", ["broker"], indirect=True)
@pytest.mark.parametrize("size_bytes", [60 * MIB, 1 * MIB])
async def test_unfinished_notices_cost_a_broker_a_bounded_sum(
    running: Service, size_bytes: int
) -> None:
    before_bytes, most_bytes = running.memory_bytes, 0
    with unfinished_notices(running.ports[0], 30, size_bytes) as connections:
        sending = asyncio.create_task(send(connections, size_bytes))
        while not sending.done():
            most_bytes = max(most_bytes, running.memory_bytes)
            await asyncio.sleep(0.02)
        await sending
        assert await running.healthy_in_s() < 4
    assert most_bytes - before_bytes < ALLOWED_BYTES


@contextlib.asynccontextmanager
async def silent_after_handshakes(
    port: int, count: int, trusted: ssl.SSLContext
) -> AsyncIterator[None]:
    """Those that the service refuses or closes stay with us."""
    opened = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
            opened.append(writer)
    try:
        yield
    finally:
        for writer in opened:
            writer.transport.abort()


@pytest.mark.parametrize("running", ["broker"], indirect=True)
async def test_clients_find_room_among_silent_connections(running: Service) -> None:
    rest, ws = running.ports
    with silent_connections(rest, SILENT), silent_connections(ws, SILENT):
        async with asyncio.timeout(20):
            await subscribe(running)
            async with socket_of("bo", running) as wire:
                with silent_connections(ws, SILENT):  # who is in stays in
                    await answered(wire)


@pytest.mark.parametrize("running", ["secured broker"], indirect=True)
async def test_over_tls_too_clients_find_room_among_silent_connections(running: Service) -> None:
    rest, ws = running.ports
    assert running.trusted is not None
    before_bytes = running.memory_bytes
    with silent_connections(rest, SILENT), silent_connections(ws, SILENT):
        async with asyncio.timeout(20):
            await subscribe(running)
            async with (
                socket_of("bo", running) as wire,
                silent_after_handshakes(ws, 2 * FILES, running.trusted),
                socket_of("cy", running) as newcomer,
            ):
                await answered(newcomer)
                await answered(wire)  # who is in stays in
    assert running.memory_bytes - before_bytes < ALLOWED_BYTES


async def subscribe(service: Service) -> None:
    async with Client(
        broker=service.url, token=token("ann"), authority=service.authority
    ) as client:
        assert await client.subscribe("floods", type="flood") is not None


def socket_of(subject: str, service: Service) -> connect:
    url = f"ws{'s' if service.trusted else ''}://127.0.0.1:{service.ports[1]}/v1/ws"
    headers = {"Authorization": f"Bearer {token(subject)}"}
    return connect(url, additional_headers=headers, ssl=service.trusted)


async def answered(wire: ClientConnection) -> None:
    await wire.send('{"op": "ping", "ref": 1}')
    while "pong" not in str(await wire.recv()):
        pass
