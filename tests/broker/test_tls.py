"""TLS between all parts: cluster (without Spark), coordinator, brokers in a tree, clients."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from cryptography import x509
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from broker.test_hardening import fill
from broker.world import World, take, token, until
from cluster.sparkless import sparkless
from tocsin import coordinator
from tocsin.broker.server import Broker
from tocsin.client import Client, SyncClient
from tocsin.client.transport import tls
from tocsin.dev.certificates import Certificates, make_certificates
from tocsin.errors import Untrusted
from tocsin.service.hosting import hosting
from tocsin.service.serving import listen, port_of
from tocsin.service.tls import certificate_of
from tocsin.settings import Settings
from tocsin.testing.fake_cluster import SECRET

NAMES = ("broker_1", "broker_2")
REPORTS = "CREATE DATASET reports (n BIGINT, text STRING, photo ATTACHMENT) ROUTED"


class Secured(World):
    """A world whose every listener has a certificate."""

    made: Certificates

    def settings(self, **changes: Any) -> Settings:
        return super().settings(**(self.made.settings() | changes))

    async def client(self, subject: str, **options: Any) -> Client:
        return await super().client(subject, authority=self.made.authority, **options)


@contextlib.asynccontextmanager
async def coordinating(made: Certificates) -> AsyncIterator[str]:
    settings = Settings(secret=SECRET, heartbeat_s=0.1, **made.settings())
    listener = listen("127.0.0.1", 0)
    certificate = certificate_of(settings)
    async with hosting(settings, partial(coordinator.app, settings), listener, certificate):
        yield f"https://127.0.0.1:{port_of(listener)}"


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "certificates")


@pytest.fixture(name="secured")
async def _secured(made: Certificates, tmp_path: Path) -> AsyncIterator[Secured]:
    (tmp_path / "data").mkdir()
    async with (
        sparkless(tmp_path / "data", **made.settings()) as cluster,
        coordinating(made) as url,
    ):
        world = Secured(cluster, url)  # type: ignore[arg-type]  # its address is all it needs
        world.made = made
        await (await world.client("admin")).sql(REPORTS)
        try:
            yield world
        finally:
            await world.close()


async def until_health(
    ask: Callable[[], Coroutine[Any, Any, httpx.Response]], status: int
) -> httpx.Response:
    async with asyncio.timeout(20):
        while (answer := await ask()).status_code != status:  # noqa: ASYNC110 (another's state)
            await asyncio.sleep(0.05)
    return answer


async def linked(world: Secured) -> list[Broker]:
    brokers = [await world.broker(name) for name in NAMES]
    await until(lambda: all(broker.links.up == 1 for broker in brokers))
    return brokers


async def test_results_attachments_and_publications_travel_over_tls_between_all_parts(
    secured: Secured,
) -> None:
    brokers = await linked(secured)
    assert all(broker.url.startswith("https:") for broker in brokers)
    assert all(broker.ws_url.startswith("wss:") for broker in brokers)
    listeners = [await secured.client(name) for name in ("ann", "bo", "cy")]
    subscriptions = [await one.subscribe_to_dataset("reports") for one in listeners]
    assert {one.broker for one in listeners} == set(NAMES)  # so that records cross the link
    authority, may = secured.made.authority, token("di", "publish")
    async with Client(brokers[1].url, token=may, authority=authority) as publisher:  # it relays
        photo = await publisher.upload(b"a picture", "image/png")
        await publisher.publish("reports", [{"n": 1, "photo": photo}, {"n": 2}])
    for listener, subscription in zip(listeners, subscriptions, strict=True):
        first, second = await take(subscription, 2)
        assert (first.value["n"], second.value["n"]) == (1, 2)
        read = await listener.attachment(first, "photo").read()
        assert hashlib.sha256(read).hexdigest() == photo["id"]


async def test_the_synchronous_client_speaks_tls_too(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    await secured.broker()
    everything = token("ann", "subscribe", "publish")

    def listen_and_publish(**options: Any) -> int:
        with SyncClient(secured.coordinator_url, token=everything, **options) as client:
            subscription = client.subscribe_to_dataset("reports")
            client.publish("reports", {"n": 7})
            return int(next(subscription).value["n"])

    authority = str(secured.made.authority)
    assert await asyncio.to_thread(listen_and_publish, authority=authority) == 7
    monkeypatch.setenv("TOCSIN_AUTHORITY", authority)  # for programs that say nothing
    assert await asyncio.to_thread(listen_and_publish) == 7


async def test_a_client_that_trusts_another_authority_is_told_so_at_once(
    secured: Secured, tmp_path: Path
) -> None:
    broker = await secured.broker()
    other = make_certificates(tmp_path / "other").authority
    for options in ({}, {"cluster": None, "coordinator": broker.url}):
        client = Client(
            **({"coordinator": secured.coordinator_url, "cluster": secured.cluster.url} | options),  # type: ignore[arg-type]
            token=token("ann", "subscribe", "publish"),
            authority=other,
        )
        async with client:
            async with asyncio.timeout(5):
                with pytest.raises(Untrusted, match="certificate is not trusted") as refused:
                    await client.subscribe_to_dataset("reports")
                assert "TOCSIN_AUTHORITY" in refused.value.message
                with pytest.raises(Untrusted, match="certificate is not trusted"):
                    await client.publish("reports", {"n": 1})
    async with Client(broker=broker.ws_url, token=token("ann"), authority=other) as client:
        async with asyncio.timeout(5):
            with pytest.raises(Untrusted, match="certificate is not trusted"):
                await client.subscribe_to_dataset("reports")


async def test_a_broker_that_does_not_trust_the_others_says_so_in_its_health(
    secured: Secured, tmp_path: Path
) -> None:
    authority = tmp_path / "wrong.pem"
    authority.write_bytes(make_certificates(tmp_path / "other").authority.read_bytes())
    broker = Broker(secured.settings(authority=str(authority)))
    starting = asyncio.create_task(broker.start())
    async with httpx.AsyncClient(verify=tls(str(secured.made.authority))) as http:

        async def health() -> httpx.Response:
            await until(lambda: hasattr(broker, "url"))
            return await http.get(f"{broker.url}/healthz")

        async with asyncio.timeout(20):
            answer = await until_health(health, 503)
            assert "no answer from the cluster" in answer.json()["status"]
            assert "certificate is not trusted" in answer.json()["status"]
            # The operator mends the file; nothing is started again.
            authority.write_bytes(secured.made.authority.read_bytes())
            tls(str(authority))
            await starting
            await until_health(health, 200)
    await broker.stop()


async def test_a_coordinator_that_is_not_trusted_is_told_in_health_and_log(
    secured: Secured, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path / "other")
    with structlog.testing.capture_logs() as logged:
        async with coordinating(other) as url:
            broker = await secured.broker(coordinator_url=url)
            async with httpx.AsyncClient(verify=tls(str(secured.made.authority))) as http:
                answer = await until_health(lambda: http.get(f"{broker.url}/healthz"), 503)
            assert f"no answer from the coordinator at {url}" in answer.json()["status"]
    warned = [line for line in logged if line["event"].startswith("no coordinator")]
    assert "certificate is not trusted" in warned[0]["reason"]


async def test_the_cluster_says_which_broker_it_does_not_trust(
    secured: Secured, tmp_path: Path
) -> None:
    other = make_certificates(tmp_path / "other")
    own = {key: text for key, text in other.settings().items() if key != "authority"}
    with structlog.testing.capture_logs() as logged:
        broker = await secured.broker(**own)
        async with Client(broker=broker.url, token=token("ann"), authority=other.authority) as ann:
            await ann.subscribe_to_dataset("reports")
            await until(lambda: any(line["event"] == "no notices" for line in logged))
    (told,) = [line for line in logged if line["event"] == "no notices"]
    assert told["broker"] == "broker_1"
    assert "certificate is not trusted" in told["reason"]


async def test_plain_calls_are_refused_in_words_on_every_port(secured: Secured) -> None:
    broker = await secured.broker()
    async with httpx.AsyncClient(timeout=5) as http:
        for url in (
            secured.cluster.url,
            secured.coordinator_url,
            broker.url,
            broker.ws_url.replace("wss", "https", 1),
        ):
            answer = await http.get(url.replace("https", "http", 1))
            assert answer.status_code == 400
            assert "speaks TLS" in answer.json()["error"]["message"]
    plain = broker.ws_url.replace("wss", "ws", 1)
    with pytest.raises(InvalidStatus) as refused:
        await connect(plain).__aenter__()
    assert b"speaks TLS" in (refused.value.response.body or b"")


async def test_who_calls_a_plain_service_by_https_is_told_that_it_speaks_no_tls(
    world: World,
) -> None:
    await world.broker()
    url = world.coordinator_url.replace("http", "https", 1)
    async with Client(url, token=token("ann")) as client, asyncio.timeout(5):
        with pytest.raises(Untrusted, match="does not speak TLS"):
            await client.subscribe("floods", type="river")


async def test_a_renewed_certificate_is_taken_up_while_connections_live(secured: Secured) -> None:
    brokers = await linked(secured)
    client = await secured.client("ann")
    subscription = await client.subscribe_to_dataset("reports")
    connections = [set(broker.sockets.connections) for broker in brokers]
    before = [await presented(broker.url, secured) for broker in brokers]
    make_certificates(secured.made.certificate.parent)
    for broker, old in zip(brokers, before, strict=True):
        async with asyncio.timeout(10):
            while await presented(broker.url, secured) == old:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert await presented(broker.ws_url, secured) != old
    await client.publish("reports", {"n": 1})
    assert (await take(subscription, 1))[0].value["n"] == 1
    assert [set(broker.sockets.connections) for broker in brokers] == connections
    assert all(broker.links.up == 1 for broker in brokers)
    newcomer = await secured.client("bo")
    await newcomer.subscribe_to_dataset("reports")


async def presented(url: str, world: Secured) -> x509.Certificate:
    at = httpx.URL(url)
    assert at.port is not None
    place, authority = (at.host, at.port), str(world.made.authority)
    pem = await asyncio.to_thread(ssl.get_server_certificate, place, ca_certs=authority)
    return x509.load_pem_x509_certificate(pem.encode())


async def test_over_tls_too_a_client_that_does_not_read_costs_little_and_is_closed(
    world: World, made: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_AUTHORITY", str(made.authority))
    limits: dict[str, Any] = {"stall_s": 1.0, "connection_bytes": 64 * 1024}
    broker = await world.broker(**limits, **made.settings())
    alice = await world.socket(broker, "alice", small=True)
    subscribed = await fill(world, broker, alice)
    (connection,) = broker.sockets.connections
    for ref in range(200):
        await alice.send(
            op="get", ref=ref, subscription=subscribed["subscription"], after=0, epoch="x"
        )
    assert connection.unsent_bytes <= 2 * 64 * 1024
    await until(lambda: broker.driver.counts.stalled)
    assert await alice.closed() in (4000, 1006)  # what waits may leave it no room to hear why


@pytest.mark.parametrize("prefix", ["", "/tocsin/broker_1"])
async def test_announced_addresses_are_those_of_the_settings(world: World, prefix: str) -> None:
    broker = await world.broker(
        public_url=f"https://edge.example.org{prefix}/",
        public_ws_url=f"wss://edge.example.org{prefix}",
    )
    await until(lambda: world.cluster.brokers)
    headers = {"authorization": f"Bearer {token('ann')}"}
    async with httpx.AsyncClient(headers=headers) as http:

        async def known() -> Any:
            answer = await http.get(f"{world.coordinator_url}/v1/brokers")
            return answer.json()["brokers"]

        while not (brokers := await known()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert brokers[0]["url"] == broker.url == f"https://edge.example.org{prefix}"
    assert brokers[0]["ws_url"] == broker.ws_url == f"wss://edge.example.org{prefix}/v1/ws"
    assert world.cluster.brokers == {"broker_1": broker.url}


async def test_public_host_goes_on_as_before(world: World) -> None:
    broker = await world.broker(public_host="localhost")
    assert broker.url.startswith("http://localhost:")
    assert broker.ws_url.startswith("ws://localhost:")


async def test_a_page_of_another_origin_opens_no_socket(world: World) -> None:
    broker = await world.broker(cors_origins="https://app.example.org")
    url = f"{broker.ws_url}?token={token('ann')}"
    async with connect(url, origin="https://app.example.org") as socket:  # type: ignore[arg-type]
        assert '"welcome"' in str(await socket.recv())
    async with connect(url) as socket:
        assert '"welcome"' in str(await socket.recv())
    with pytest.raises(InvalidStatus) as refused:
        await connect(url, origin="https://evil.example").__aenter__()  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403
    assert b"evil.example" in (refused.value.response.body or b"")


async def test_metrics_and_docs_of_a_broker_are_where_the_setting_says(world: World) -> None:
    listener = listen("127.0.0.1", 0)
    address = f"127.0.0.1:{port_of(listener)}"
    listener.close()
    broker = await world.broker(inner_address=address)
    async with httpx.AsyncClient() as http:
        for path in ("/metrics", "/docs", "/openapi.json"):
            assert (await http.get(broker.url + path)).status_code == 404
            assert (await http.get(f"http://{address}{path}")).status_code == 200
        for url in (broker.url, f"http://{address}"):
            assert (await http.get(f"{url}/healthz")).status_code == 200
