"""Publishing through gateways while they, and the cluster that leads, are killed: nothing that was
acknowledged is lost, nothing is doubled, and who publishes sees no error for a leader's sake."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tocsin.client import Client
from tocsin.client.cluster import Cluster
from tocsin.client.transport import tls
from tocsin.dev.certificates import make_certificates
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import TocsinError, Unavailable, Unconfirmed
from tocsin.protocol.appends import GatewayStatus
from tocsin.protocol.failure import read_error
from tocsin.protocol.publishing import StatementResult
from tocsin.settings import Settings
from tocsin.system import System

from .load import short_lived

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

PUBLISHERS = 6
REPORTS = "CREATE DATASET reports (id STRING, n BIGINT)"
SETTLED_S = 90.0
PAGE = 150  # records of each publisher


class Publishing:
    """Publishers, at all gateways. Every other one is our client, which repeats what had no answer
    under a key; the rest speak plain HTTP without keys, send once, and note what is in doubt."""

    def __init__(self, system: System) -> None:
        token = system.token("ann", "publish")
        self._clusters = [
            Cluster(system.gateway_url, token, authority=system.settings.authority)
            for _ in range(PUBLISHERS)
        ]
        self._plain = httpx.AsyncClient(
            headers={"authorization": f"Bearer {token}"},
            timeout=60,
            verify=tls(system.settings.authority),
        )
        self._urls = itertools.cycle(system.gateway_urls.values())
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.acknowledged: set[str] = set()
        self.in_doubt: set[str] = set()
        self.errors: list[str] = []

    async def start(self) -> None:
        runs = (self._run(number) for number in range(PUBLISHERS))
        self._tasks = [asyncio.create_task(run) for run in runs]
        await self.growing()

    async def _run(self, number: int) -> None:
        for count in itertools.count():
            if self._stopping:
                return
            id = f"{number}-{count}"
            record = {"id": id, "n": count}
            if number % 2 == 0:
                await self._publish(self._clusters[number], record)
            else:
                await self._publish_plainly(record)
            await asyncio.sleep(0.01)

    async def _publish(self, cluster: Cluster, record: dict[str, Any]) -> None:
        while True:
            try:
                await cluster.publish("reports", record, key=record["id"])
            except TocsinError as error:
                self.errors.append(f"{record}: {error}")
                await asyncio.sleep(0.1)
            else:
                self.acknowledged.add(record["id"])
                return

    async def _publish_plainly(self, record: dict[str, Any]) -> None:
        url = f"{next(self._urls)}/v1/datasets/reports/records"
        try:
            answer = await self._plain.post(url, json=record)
        except httpx.HTTPError as error:
            self.errors.append(f"{record}: {error!r}")
            if not isinstance(error, httpx.ConnectError):
                self.in_doubt.add(record["id"])
            return
        if answer.is_success:
            self.acknowledged.add(record["id"])
            return
        refusal = read_error(answer.content)
        self.errors.append(f"{record}: {refusal}")
        if isinstance(refusal, Unconfirmed):
            self.in_doubt.add(record["id"])
        else:
            assert type(refusal) is Unavailable, answer.text  # and nothing was taken

    async def growing(self) -> None:
        goal = len(self.acknowledged) + 20
        async with asyncio.timeout(SETTLED_S):
            while len(self.acknowledged) < goal:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def end(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)
        await self._plain.aclose()
        for cluster in self._clusters:
            await cluster.close()

    async def judge(self, admin: Client) -> None:
        """By what is stored."""
        counts = await stored(admin)
        assert self.acknowledged <= counts.keys(), "what was acknowledged is lost"
        assert counts.keys() <= self.acknowledged | self.in_doubt
        assert max(counts.values()) == 1, "something was taken twice"


async def asked(admin: Client, text: str) -> StatementResult:
    """Spark is there some seconds after a cluster leads."""
    async with asyncio.timeout(SETTLED_S):
        while True:
            try:
                (result,) = await admin.sql(text)
            except Unavailable:
                await asyncio.sleep(0.5)
            else:
                return result


async def stored(admin: Client) -> Counter[str]:
    """How often each record is, read in pages: an answer has a bound."""
    counts: Counter[str] = Counter()
    last = await asked(admin, "SELECT max(n) AS n FROM reports")
    for begin in range(0, last.rows[0][0] + 1, PAGE):
        where = f"WHERE n >= {begin} AND n < {begin + PAGE}"
        page = await asked(admin, f"SELECT id, count(*) AS n FROM reports {where} GROUP BY id")  # noqa: S608
        counts.update({id: n for id, n in page.rows})
    total = await asked(admin, "SELECT count(*) AS n FROM reports")
    assert counts.total() == total.rows[0][0]
    return counts


@asynccontextmanager
async def publishing(settings: Settings) -> AsyncIterator[tuple[System, Publishing, Client]]:
    async with System(msgspec.structs.replace(settings, gateways=2), brokers=1) as system:
        token = system.token("maria", "admin", "publish", "subscribe")
        # An application may use a gateway for all its calls to the cluster.
        async with Client(
            system.coordinator_url,
            cluster=system.gateway_url,
            token=token,
            authority=settings.authority,
        ) as admin:
            await admin.sql(REPORTS)
            load = Publishing(system)
            await load.start()
            yield system, load, admin


async def test_gateways_and_the_cluster_are_killed_under_load(
    profile: Settings, tmp_path: Path
) -> None:
    """The cluster is started again. In files alone every link speaks TLS."""
    if not profile.log:
        made = make_certificates(tmp_path / "certificates")
        profile = msgspec.structs.replace(profile, **made.settings())
    async with publishing(profile) as (system, load, admin):
        for victim in ("gateway", "gateway_2", "cluster", "gateway"):
            await system.kill(victim)
            await load.growing()
            await system.ready(victim)
        await load.growing()
        await load.end()
        await load.judge(admin)
        assert system.restarts("gateway") == 2


async def test_publishers_see_no_error_while_a_standby_takes_over(
    kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    settings = short_lived(
        tmp_path,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        warm_up=True,
        standbys=1,
        java_limit_s=30.0,
    )
    async with publishing(settings) as (system, load, admin):
        leader, before = await system.leader(), len(load.acknowledged)
        assert leader is not None
        await system.kill(leader)
        at = time.monotonic()
        await load.growing()
        print(f"{time.monotonic() - at:.1f} s from the kill to 20 more records")
        await load.end()
        assert load.errors == []  # those without a key included: gateways give them keys
        assert len(load.acknowledged) > before
        await load.judge(admin)


async def test_a_gateway_says_what_it_waits_for(tmp_path: Path) -> None:
    async with publishing(short_lived(tmp_path)) as (system, load, admin):
        url = system.gateway_urls["gateway"]
        async with httpx.AsyncClient() as http:

            async def status() -> GatewayStatus:
                answer = await http.get(f"{url}/v1/status")
                return msgspec.json.decode(answer.content, type=GatewayStatus)

            assert (await status()).ready
            await system.kill("cluster")
            async with asyncio.timeout(SETTLED_S):
                while (said := await status()).ready:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert said.waits_for
            assert (await http.get(f"{url}/healthz")).status_code == 200  # it holds, and waits
            await system.ready("cluster")
            await load.growing()
            async with asyncio.timeout(SETTLED_S):
                while not (await status()).ready:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        await load.end()
        await load.judge(admin)
