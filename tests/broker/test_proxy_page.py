"""The page about proxies: its nginx, as printed, ends TLS before a whole system, below a path."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.world import PATIENCE_S, World, take, token, until
from cluster.sparkless import sparkless
from real_servers import skip_or_fail
from tocsin import coordinator
from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.dev.certificates import Certificates, make_certificates
from tocsin.dev.nginx import Nginx
from tocsin.service.serving import listen, port_of, serving
from tocsin.settings import Settings
from tocsin.testing.fake_cluster import SECRET

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "proxy.md").read_text()
BLOCK = re.compile(r"^```nginx\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BROKER = re.compile(r"    # For each broker.*(?=^})", re.MULTILINE | re.DOTALL)
AROUND = """
{user}
daemon off;
pid {home}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    {printed}
}}
"""

pytestmark = pytest.mark.processes


def free_port() -> int:
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        return port_of(listener)


class Proxied:
    """A system of which the proxy alone is known to clients."""

    def __init__(self, made: Certificates, home: Path) -> None:
        self.made, self.home = made, home
        self.port = free_port()
        self.ports = {name: (free_port(), free_port()) for name in ("broker_1", "broker_2")}
        self.world: World

    def url(self, place: str, scheme: str = "https") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/tocsin/{place}"

    async def broker(self, name: str) -> None:
        rest, ws = self.ports[name]
        await self.world.broker(
            name,
            broker_port=rest,
            broker_ws_port=ws,
            coordinator_url=self.url("coordinator"),
            authority=str(self.made.authority),
            public_url=self.url(name),
            public_ws_url=self.url(name, "wss"),
        )

    def client(self, subject: str) -> Client:
        may = token(subject, "subscribe", "publish", "admin")
        return Client(
            self.url("coordinator"),
            cluster=self.url("cluster"),
            token=may,
            authority=self.made.authority,
        )

    def configuration(self, cluster: int, coordinator: int) -> str:
        """As printed, but for ports and files."""
        (printed,) = BLOCK.findall(TEXT)
        (blocks,) = BROKER.findall(printed)
        (rest, ws), (other_rest, other_ws) = self.ports.values()
        other = blocks.replace("broker_1", "broker_2")
        other = other.replace(":7420", f":{other_rest}").replace(":7421", f":{other_ws}")
        printed = printed.replace(blocks, blocks + other)
        for given, real in (
            ("listen 443", f"listen 127.0.0.1:{self.port}"),
            ("/etc/tocsin/certificate.pem", str(self.made.certificate)),
            ("/etc/tocsin/certificate_key.pem", str(self.made.certificate_key)),
            (":7400", f":{cluster}"),
            (":7410", f":{coordinator}"),
            (":7420", f":{rest}"),
            (":7421", f":{ws}"),
        ):
            assert given in printed
            printed = printed.replace(given, real)
        user = "user root;" if os.geteuid() == 0 else ""  # whose the test's directory is
        return AROUND.format(user=user, home=self.home, printed=printed)


@contextlib.asynccontextmanager
async def nginx(proxied: Proxied, cluster: int, coordinator: int) -> AsyncIterator[None]:
    file = proxied.home / "nginx.conf"
    file.write_text(proxied.configuration(cluster, coordinator))
    words = [str(Nginx.program()), "-p", str(proxied.home), "-c", str(file)]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        await until(lambda: process.poll() is not None or answers(proxied.port))
        assert process.poll() is None, "nginx does not take what is printed"
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, PATIENCE_S)


def answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[Proxied]:
    if reason := Nginx.missing():
        skip_or_fail(reason)
    made = make_certificates(tmp_path / "certificates")
    home = tmp_path / "nginx"
    for folder in (home, tmp_path / "data"):
        folder.mkdir()
    proxied = Proxied(made, home)
    settings = Settings(secret=SECRET, heartbeat_s=0.1)
    listener = listen("127.0.0.1", 0)
    async with (
        sparkless(tmp_path / "data", authority=str(made.authority)) as cluster,
        serving(coordinator.app(settings), listener),
        nginx(proxied, httpx.URL(cluster.url).port or 0, port_of(listener)),
    ):
        proxied.world = World(cluster, "")  # type: ignore[arg-type]  # its address is enough
        try:
            for name in proxied.ports:
                await proxied.broker(name)
            yield proxied
        finally:
            await proxied.world.close()


async def test_a_client_is_served_through_the_printed_proxy_and_so_are_links(
    proxied: Proxied,
) -> None:
    async with proxied.client("ann") as ann, proxied.client("bo") as bo:
        await ann.sql("CREATE DATASET reports (n BIGINT, photo ATTACHMENT) ROUTED")
        brokers = proxied.world._brokers
        await until(lambda: [broker.links.up for broker in brokers] == [1, 1])
        subscriptions = [await one.subscribe_to_dataset("reports") for one in (ann, bo)]
        assert {ann.broker, bo.broker} == set(proxied.ports)
        photo = await ann.upload(b"p" * 3_000_000, "image/png")
        await ann.publish("reports", [{"n": 1, "photo": photo}, {"n": 2}])
        for one, subscription in zip((ann, bo), subscriptions, strict=True):
            first, second = await take(subscription, 2)
            assert (first.value["n"], second.value["n"]) == (1, 2)
            read = await one.attachment(first, "photo").read()
            assert hashlib.sha256(read).hexdigest() == photo["id"]
        may, authority = token("cy", "publish"), proxied.made.authority
        async with Client(
            broker=proxied.url("broker_2"), token=may, authority=authority
        ) as relayed:
            assert (await relayed.publish("reports", {"n": 3})).accepted == 1
        for subscription in subscriptions:
            assert (await take(subscription, 1))[0].value["n"] == 3


async def test_events_come_through_the_proxy_as_they_are_made(proxied: Proxied) -> None:
    headers = {"authorization": f"Bearer {token('ann', 'subscribe', 'publish', 'admin')}"}
    async with httpx.AsyncClient(
        headers=headers, verify=tls(str(proxied.made.authority)), timeout=PATIENCE_S
    ) as http:
        statement = {"sql": "CREATE DATASET reports (n BIGINT) ROUTED"}
        answer = await http.post(proxied.url("cluster/v1/statements"), json=statement)
        assert answer.status_code == 200, answer.text
        wanted: dict[str, Any] = {"channel": "dataset/reports", "arguments": {"where": ""}}
        url = proxied.url("broker_1")
        assert (await http.post(f"{url}/v1/subscriptions", json=wanted)).status_code == 200
        async with http.stream("GET", f"{url}/v1/events?inline=1") as events:
            lines = events.aiter_lines()
            async with asyncio.timeout(PATIENCE_S):
                assert await anext(lines) == "event: welcome"
                published = await http.post(f"{url}/v1/datasets/reports/records", json={"n": 7})
                assert published.status_code == 200
                while '"n":7' not in await anext(lines):
                    pass


async def test_the_description_behind_the_proxy_leads_to_what_it_describes(
    proxied: Proxied,
) -> None:
    async with httpx.AsyncClient(verify=tls(str(proxied.made.authority))) as http:
        page = await http.get(proxied.url("broker_1/docs"))
        (link,) = re.findall(r"href=([^>]+)>", page.text)
        described = await http.get(str(page.url.join(link)))
        (server,) = described.json()["servers"]
        base = str(described.url.join(server["url"])).rstrip("/")
        assert base == proxied.url("broker_1")
        assert (await http.get(f"{base}/healthz")).status_code == 200
