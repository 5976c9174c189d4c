"""kill -9 of every service in turn, under load: the promises hold for real processes.

Publishers note what was acknowledged, listeners note what they were shown. Afterwards nothing
acknowledged may be missing, nothing may be stored or shown twice, and order must be kept.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import msgspec
import pytest

from tocsin.client import Client
from tocsin.client.transport import tls
from tocsin.dev.certificates import make_certificates
from tocsin.dev.mariadb import MariaDB
from tocsin.errors import Unavailable
from tocsin.settings import Settings
from tocsin.system import System

from .load import short_lived, under_load

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

VICTIMS = ("broker_1", "coordinator", "broker_2", "cluster")


async def test_nothing_is_lost_doubled_or_reordered_when_the_database_is_killed(
    mariadb: MariaDB, tmp_path: Path
) -> None:
    """And is away for longer than anybody waits for it: then runs fail, and are made up for."""
    settings = short_lived(tmp_path, store=mariadb.fresh())
    async with under_load(settings, publishers=2) as load:
        mariadb.kill()
        await load.growing()  # the log needs no database
        await told_unavailable(load.admin)
        await asyncio.to_thread(mariadb.start)
        await load.growing()
        await load.judge()
        assert load.system.restarts("cluster") == 0


async def told_unavailable(admin: Client) -> None:
    """Wait until calls are answered with what the cluster waits for."""
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.sql("SHOW BROKERS")
            except Unavailable as error:
                if "cannot answer" in error.message:
                    return


async def asserted_inner(system: System) -> None:
    """Metrics are at the inner addresses alone, for who has the scope."""
    headers = {"authorization": f"Bearer {system.token('admin', 'admin')}"}
    async with httpx.AsyncClient(verify=tls(system.settings.authority)) as http:
        assert len(set(system.inner_urls.values())) == len(system.names)
        for name, url in system.inner_urls.items():
            assert (await http.get(f"{url}/metrics")).status_code == 401, name
            assert (await http.get(f"{url}/metrics", headers=headers)).status_code == 200, name
        for url in (system.cluster_url, system.coordinator_url, *system.broker_urls.values()):
            assert (await http.get(f"{url}/metrics", headers=headers)).status_code == 404
            assert (await http.get(f"{url}/healthz")).status_code == 200


async def test_nothing_is_lost_doubled_or_reordered_when_services_are_killed(
    profile: Settings, tmp_path: Path
) -> None:
    """In files alone every link speaks TLS, and what is for operators has addresses of its own; on
    Kafka and a database server nothing of that."""
    if not profile.log:
        made = make_certificates(tmp_path / "certificates")
        inner = {"inner_address": "127.0.0.1:0", "inner_scope": "admin"}
        profile = msgspec.structs.replace(profile, **made.settings(), **inner)
    async with under_load(profile, brokers=2) as load:
        assert load.system.cluster_url.startswith("http:" if profile.log else "https:")
        if profile.inner_address:
            await asserted_inner(load.system)
        first = await load.publisher.publish("first", "flood")
        load.publisher.acknowledged["flood"].add("first")
        for victim in VICTIMS[:-1]:  # one after the other
            await load.system.kill(victim)
            await asyncio.sleep(0.3)
            await load.system.ready(victim)
            await load.growing()
        for victim in VICTIMS:  # one before the other is back
            await load.system.kill(victim)
            await asyncio.sleep(0.3)
        for victim in VICTIMS:
            await load.system.ready(victim)
        await load.growing()
        await load.end()
        assert await load.publisher.publish("first", "flood") == first  # restarts later
        await load.judge()
        restarts = {name: 1 if name == "cluster" else 2 for name in load.system.names}
        assert {name: load.system.restarts(name) for name in load.system.names} == restarts
