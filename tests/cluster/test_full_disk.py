"""A full disk: whoever writes hears 503 and what to do, health says so while it lasts, and when
there is room again everything goes on by itself. Nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.world import until
from cluster.sparkless import SECRET, SparklessCluster, sparkless
from full_disk import fill, make_room, small_disk
from tocsin.client.transport import tls
from tocsin.cluster.opening import opened_store
from tocsin.errors import Unavailable
from tocsin.model import Channel, Column, Dataset, Parameter
from tocsin.protocol.failure import error_body
from tocsin.service.serving import listen, port_of
from tocsin.service.tokens import mint
from tocsin.settings import Settings
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

REPORTS = Dataset(
    "reports", (Column("n", "INT"), Column("text", "STRING")), routed=True, created_at=1.0
)
FOUND = Channel(
    "found",
    "continuous",
    (Parameter("n", "INT"),),
    "SELECT r.n FROM NEW reports r WHERE r.n = :n",
    ("reports",),
    ("reports",),
)
LARGE = bytes(256 * 1024)


class Site:
    """A cluster on a small disk, and everything that writes there."""

    def __init__(self, cluster: SparklessCluster, http: httpx.AsyncClient, disk: Path) -> None:
        self.cluster = cluster
        self.http = http
        self.disk = disk
        self.data = disk / "data"
        self.published: list[int] = []
        self.runs = 0
        self._numbers = iter(range(1000))

    async def publish(self) -> httpx.Response:
        number = next(self._numbers)
        record = {"n": number, "text": "x" * 10_000}
        answer = await self.http.post("/v1/datasets/reports/records", json=[record])
        if answer.status_code == 200:
            self.published.append(number)
        return answer

    async def upload(self, content: bytes = b"") -> httpx.Response:
        content += b"%d" % next(self._numbers)
        return await self.http.post("/v1/attachments", content=content)

    async def register(self) -> httpx.Response:
        url = f"http://127.0.0.1:{next(self._numbers) + 1}"
        return await self.http.put("/v1/brokers/b", json={"url": url})

    async def subscribe(self) -> httpx.Response:
        arguments = {"n": next(self._numbers)}
        asked = {"channel": "found", "arguments": arguments, "broker": "b"}
        return await self.http.post("/v1/subscriptions", json=asked)

    async def run(self) -> httpx.Response:
        """A channel's run: its results, all together."""
        subscription = (await self.subscriptions())[0]
        now = time.time()
        run = Run("found", f"run {next(self._numbers)}", now, now)
        commit = self.cluster.store.runs.commit_run
        try:
            await asyncio.to_thread(commit, run, [(subscription["backend"], b'{"n":1}')])
        except Unavailable as error:
            return httpx.Response(error.status, content=error_body(error))
        self.runs += 1
        return httpx.Response(200)

    async def acknowledge(self) -> httpx.Response:
        subscription = (await self.subscriptions())[0]
        marker = {
            "subscription": subscription["subscription"],
            "epoch": subscription["epoch"],
            "position": subscription["head"],
        }
        return await self.http.post("/v1/markers", json={"markers": [marker]})

    async def unsubscribe(self) -> httpx.Response:
        subscription = (await self.subscriptions())[-1]["subscription"]
        return await self.http.delete(f"/v1/subscriptions/{subscription}")

    async def execute(self, statement: str) -> httpx.Response:
        sql = statement.format(next(self._numbers))
        return await self.http.post("/v1/statements", json={"sql": sql})

    async def revoke(self) -> httpx.Response:
        subjects = [f"somebody {next(self._numbers)}"]
        return await self.http.post("/v1/revocations", json={"revoke": {"subjects": subjects}})

    async def subscriptions(self) -> list[dict[str, Any]]:
        answer = await self.http.get("/v1/subscriptions")
        listed: list[dict[str, Any]] = answer.json()["subscriptions"]
        return listed

    async def kept(self) -> list[int]:
        answer = await self.http.get("/v1/datasets/reports/log?after=0&limit=1000")
        return [line["record"]["n"] for line in answer.json()["records"]]

    async def health(self) -> tuple[int, str]:
        answer = await self.http.get("/healthz")
        return answer.status_code, answer.json()["status"]

    def unfinished(self) -> list[Path]:
        waiting = (*self.data.rglob("*.part"), *self.data.rglob("*.writing"))
        return [path for path in waiting if path.is_file()]


CALLS: list[Callable[[Site], Coroutine[Any, Any, httpx.Response]]] = [
    Site.register,
    Site.publish,
    Site.upload,
    partial(Site.upload, content=LARGE),
    Site.subscribe,
    Site.subscribe,
    Site.run,
    Site.acknowledge,
    Site.unsubscribe,
    partial(Site.execute, statement="CREATE ROLE role_{}"),
    partial(Site.execute, statement="CREATE DATASET dataset_{} (n INT)"),
    Site.revoke,
]


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Any:
    with small_disk(tmp_path / "disk", "6m") as disk:
        (disk / "data").mkdir()
        yield disk


@pytest.fixture(name="site")
async def _site(disk: Path) -> AsyncIterator[Site]:
    async with sparkless(disk / "data") as cluster:
        await cluster.create_dataset(REPORTS)
        cluster.store.catalog.create_channel(FOUND)
        scopes = ("publish", "subscribe", "broker", "admin")
        bearer = mint(SECRET, "b", scopes, expires_s=600, now=time.time())
        headers = {"authorization": f"Bearer {bearer}"}
        async with httpx.AsyncClient(base_url=cluster.url, headers=headers, verify=tls()) as http:
            yield Site(cluster, http, disk)


async def test_a_full_disk_is_told_and_outlived(site: Site) -> None:
    for call in CALLS:
        answer = await call(site)
        assert answer.status_code < 300, (call, answer.text)
    assert await site.health() == (200, "ok")
    dropped = site.disk / "dropped.jsonl"
    dropped.write_text('{"n": 1001}\n')
    before = await site.kept(), await site.subscriptions()
    fill(site.disk)
    inbox = site.data / "inbox" / "reports"
    dropped.rename(inbox / dropped.name)
    for call in CALLS:
        fill(site.disk)  # what others let go of is taken, too
        answer = await call(site)
        assert answer.status_code == 503, (call, answer.text)
        assert "free" in answer.json()["error"]["hint"], call
    await until(lambda: site.cluster.inbox.troubles.of("reports/dropped.jsonl"))
    assert (await site.kept(), await site.subscriptions()) == before  # reading goes on
    assert site.unfinished() == []
    status, reason = await site.health()
    assert (status, reason) == (503, f"the disk of {site.data} is full: free space there")

    make_room(site.disk)
    for call in CALLS:
        answer = await call(site)
        assert answer.status_code < 300, (call, answer.text)
    await until(lambda: (inbox / "taken" / "dropped.jsonl").exists())
    assert await site.health() == (200, "ok")
    assert sorted(await site.kept()) == [*site.published, 1001]
    acknowledged = (await site.subscriptions())[0]
    assert acknowledged["head"] == acknowledged["marker"] == site.runs == 2


async def test_a_cluster_that_starts_on_a_full_disk_waits_for_room(disk: Path) -> None:
    settings = Settings(data=disk / "data", secret=SECRET)
    Store.open(f"sqlite:///{disk}/data/store.db").close()
    fill(disk)
    listener = listen("127.0.0.1", 0)
    opening = asyncio.create_task(opened_store(settings, listener))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port_of(listener)}") as http:
        async with asyncio.timeout(10):
            while (await http.get("/healthz")).status_code != 503:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert "disk is full" in (await http.get("/v1/status")).json()["waits_for"]
    make_room(disk)
    (await opening).close()
    listener.close()
