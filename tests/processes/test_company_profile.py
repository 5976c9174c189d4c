"""A live system on Kafka and MariaDB that are encrypted and ask for passwords: which mode each
channel runs in, and that all answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from real_servers import RealServers
from secured import SecuredKafka, SecuredMariaDB
from tocsin.client import ANY, Client
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

STATEMENTS = """
CREATE DATASET reports (id STRING, type STRING, severity INT, lat DOUBLE, lon DOUBLE);
CREATE DATASET shelters (name STRING, type STRING) PRIMARY KEY (name);
CREATE CONTINUOUS CHANNEL of_type(type STRING, least INT) AS
  SELECT r.id FROM NEW reports r WHERE r.type = :type AND r.severity >= :least;
CREATE CONTINUOUS CHANNEL severe(least INT) AS
  SELECT r.id, r.severity FROM NEW reports r WHERE r.severity >= :least;
CREATE CONTINUOUS CHANNEL nearby(lat DOUBLE, lon DOUBLE, km DOUBLE) PUSH AS
  SELECT r.id, r.lat FROM NEW reports r WHERE near(r.lat, r.lon, :lat, :lon, :km);
CREATE CONTINUOUS CHANNEL sheltered(type STRING) AS
  SELECT r.id, s.name FROM NEW reports r JOIN shelters s ON s.type = r.type WHERE r.type = :type;
"""


@pytest.fixture
async def admin(real_servers: RealServers, tmp_path: Path) -> AsyncIterator[tuple[System, Client]]:
    kafka, mariadb = real_servers.start(SecuredKafka), real_servers.start(SecuredMariaDB)
    settings = Settings(
        data=tmp_path,
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        log=kafka.url,
        store=mariadb.fresh(),
        real_time_batch_s=2.0,
        flush_interval_s=2.0,
    )
    async with System(settings) as system:
        token = system.token("admin", "admin", "publish", "subscribe")
        async with Client(
            system.coordinator_url, cluster=system.cluster_url, token=token
        ) as client:
            for statement in filter(str.strip, STATEMENTS.split(";")):
                await client.sql(statement)
            yield system, client


async def test_channels_answer_in_the_mode_that_their_query_allows(
    admin: tuple[System, Client],
) -> None:
    _, client = admin
    modes = {name: await _mode(client, name) for name in ("of_type", "severe", "nearby")}
    assert all(mode.startswith("real-time") for mode in modes.values()), modes
    assert "stored dataset shelters" in await _mode(client, "sheltered")
    await client.publish("shelters", {"name": "school", "type": "flood"})
    heard: dict[str, set[str]] = {}

    async def listen(name: str, channel: str, **given: Any) -> None:
        async for result in client.listen(channel, **given):
            heard.setdefault(name, set()).add(result.value["id"])

    listening = [
        asyncio.create_task(listen(*one[:2], **one[2]))
        for one in (
            ("floods", "of_type", {"type": "flood", "least": 3}),
            ("all floods", "of_type", {"type": "flood", "least": ANY}),
            ("anything", "of_type", {"type": ANY, "least": ANY}),
            ("severe", "severe", {"least": 4}),
            ("close", "nearby", {"lat": 33.6, "lon": -117.8, "km": 0.2}),
            ("far", "nearby", {"lat": 33.6, "lon": -117.8, "km": 500.0}),
            ("sheltered", "sheltered", {"type": "flood"}),
        )
    ]
    for number in itertools.count():  # until every subscription has taken effect
        if len(heard) == len(listening):
            break
        assert number < 400, heard.keys()
        await client.publish("reports", _report(f"probe-{number}", "flood", 5, 33.6))
        await asyncio.sleep(0.3)
    await client.publish("reports", _report("mild", "flood", 1, 33.6))
    await client.publish("reports", _report("fire", "fire", 9, 35.0))
    await client.publish("reports", _report("last", "flood", 9, 33.6))
    async with asyncio.timeout(60):
        while not all("last" in each for each in heard.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    told = {name: {one for one in each if "probe" not in one} for name, each in heard.items()}
    assert told == {
        "floods": {"last"},
        "all floods": {"mild", "last"},
        "anything": {"mild", "fire", "last"},
        "severe": {"fire", "last"},
        "close": {"mild", "last"},
        "far": {"mild", "fire", "last"},
        "sheltered": {"mild", "last"},
    }
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)


def _report(name: str, kind: str, severity: int, lat: float) -> dict[str, Any]:
    return {"id": name, "type": kind, "severity": severity, "lat": lat, "lon": -117.8}


async def _mode(client: Client, channel: str) -> str:
    [described] = await client.sql(f"DESCRIBE CHANNEL {channel}")
    return str(dict(described.rows)["mode"])
