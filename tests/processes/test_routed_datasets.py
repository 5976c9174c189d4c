"""Seven brokers that route records by filters, as real processes that all speak TLS: what
subscribers hear while brokers are killed, and where the past comes from."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.dev.certificates import make_certificates
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

BROKERS = 7
DATASET = (
    "CREATE DATASET reports"
    " (number BIGINT, kind STRING, severity INT, lat DOUBLE, lon DOUBLE) ROUTED"
)
WHERE = [
    "kind = 'flood'",
    "severity >= 3",
    "kind LIKE 'f%' AND severity BETWEEN 2 AND 4",
    "near(lat, lon, 33.6, -117.8, 100)",
    "kind IN ('fire', 'quake') AND severity <> 1",
    "kind IS NULL",
    "",
]
KINDS = ("flood", "fire", "quake", None)


def report(number: int) -> dict[str, Any]:
    return {
        "number": number,
        "kind": KINDS[number % 4],
        "severity": number % 6,
        "lat": 33.6 + (number % 5),
        "lon": -117.8,
    }


def wanted(where: str, one: dict[str, Any]) -> bool:
    """The same question, by hand."""
    kind, severity = one["kind"], one["severity"]
    asked: dict[str, bool] = {
        WHERE[0]: kind == "flood",
        WHERE[1]: severity >= 3,
        WHERE[2]: kind in ("flood", "fire") and 2 <= severity <= 4,
        WHERE[3]: one["lat"] < 34,
        WHERE[4]: kind in ("fire", "quake") and severity != 1,
        WHERE[5]: kind is None,
        WHERE[6]: True,
    }
    return asked[where]


class Listener:
    """A subscriber with one filter, who writes down what it hears."""

    def __init__(self, system: System, number: int) -> None:
        self.where = WHERE[number % len(WHERE)]
        self.heard: list[int] = []
        self.lag_s: list[float] = []
        self._client = Client(
            system.coordinator_url,
            token=system.token(f"listener-{number}", "subscribe"),
            authority=system.settings.authority,
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        stream = await self._client.subscribe_to_dataset("reports", self.where)
        self._task = asyncio.create_task(self._listen(stream))

    async def _listen(self, stream: AsyncIterator[Any]) -> None:
        async for result in stream:
            assert result.gap is None
            self.heard.append(result.value["number"])
            self.lag_s.append(time.time() - result.at)

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()


class Publisher:
    """Publishes at any broker that answers, each record under its own key until it is accepted."""

    def __init__(self, system: System) -> None:
        self._urls = list(system.broker_urls.values())
        self._token = system.token("publisher", "publish")
        self._http = httpx.AsyncClient(timeout=5.0, verify=tls(system.settings.authority))
        self.accepted: list[int] = []

    async def publish(self, number: int) -> None:
        attempt = number
        while True:
            url = self._urls[attempt % len(self._urls)]
            attempt += 1
            try:
                answer = await self._http.post(
                    f"{url}/v1/datasets/reports/records",
                    json=report(number),
                    headers={
                        "Authorization": f"Bearer {self._token}",
                        "Idempotency-Key": f"report-{number}",
                    },
                )
                if answer.status_code == 200:
                    self.accepted.append(number)
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        await self._http.aclose()


async def until(true: Any, what: str) -> None:
    ends_at = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends_at, what
        await asyncio.sleep(0.05)


async def linked(system: System, count: int) -> None:
    """Wait until the brokers' links are those of one tree."""
    token = system.token("admin", "admin")
    headers, trusted = {"Authorization": f"Bearer {token}"}, tls(system.settings.authority)
    async with httpx.AsyncClient(headers=headers, verify=trusted) as http:

        async def links() -> int:
            found = 0
            for url in system.broker_urls.values():
                try:
                    told = (await http.get(f"{url}/v1/overlay")).json()
                except httpx.HTTPError:
                    continue
                found += len(told["neighbours"])
            return found

        ends_at = time.monotonic() + 60
        while await links() != 2 * (count - 1):
            assert time.monotonic() < ends_at, f"{await links()} ends of links"
            await asyncio.sleep(0.1)


async def test_nobody_misses_or_doubles_a_record_while_brokers_are_killed(tmp_path: Path) -> None:
    settings = Settings(
        data=tmp_path,
        master="local[1]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        heartbeat_s=0.3,
        **make_certificates(tmp_path / "certificates").settings(),
    )
    async with System(settings, brokers=BROKERS) as system:
        assert all(url.startswith("https:") for url in system.broker_urls.values())
        may, authority = system.token("admin", "admin"), system.settings.authority
        admin = Client(cluster=system.cluster_url, token=may, authority=authority)
        await admin.sql(DATASET)
        await linked(system, BROKERS)
        listeners = [Listener(system, number) for number in range(2 * BROKERS)]
        await asyncio.gather(*(listener.start() for listener in listeners))
        publisher = Publisher(system)
        stopping = asyncio.Event()
        numbers = iter(range(100_000))

        async def publish() -> None:
            while not stopping.is_set():
                await publisher.publish(next(numbers))
                await asyncio.sleep(0.02)

        publishing = [asyncio.create_task(publish()) for _ in range(3)]
        await until(lambda: len(publisher.accepted) > 100, "records are accepted")
        for victims in (["broker_3"], ["broker_1"], ["broker_2", "broker_5"], ["cluster"]):
            for victim in victims:
                await system.kill(victim)
            await asyncio.sleep(1.0)
            for victim in victims:
                await system.ready(victim)
            before = len(publisher.accepted)
            await until(lambda before=before: len(publisher.accepted) > before + 40, "goes on")
        stopping.set()
        await asyncio.gather(*publishing)
        await publisher.close()

        def due(one: Listener) -> list[int]:
            return sorted(n for n in publisher.accepted if wanted(one.where, report(n)))

        for one in listeners:
            await until(
                lambda one=one: len(one.heard) >= len(due(one)), f"{one.where!r} is complete"
            )
        await asyncio.sleep(0.5)
        (stored,) = await admin.sql("SELECT count(*), count(DISTINCT number) FROM reports")
        assert stored.rows == [[len(publisher.accepted)] * 2]  # Spark sees them as all others
        for one in listeners:
            assert sorted(one.heard) == due(one), one.where  # nothing lost, nothing doubled
        orders = {listener.where: listener.heard for listener in listeners}
        whole = {number: at for at, number in enumerate(orders[""])}
        for one in listeners:  # everybody hears records in the order of the log
            assert [whole[n] for n in one.heard] == sorted(whole[n] for n in one.heard)
        await asyncio.gather(*(listener.stop() for listener in listeners))
        await admin.close()
