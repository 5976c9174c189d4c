"""kill -9 of every service in turn, under load: the promises hold for real processes.

Publishers note what was acknowledged, listeners note what they were shown. Afterwards nothing
acknowledged may be missing, nothing may be stored or shown twice, and order must be kept.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import msgspec
import pytest

from tocsin.client import Client
from tocsin.dev.mariadb import MariaDB
from tocsin.errors import Unavailable
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

from .load import STATEMENTS, Publisher, assert_promises, audience, growing, until_quiet

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

VICTIMS = ("broker_1", "coordinator", "broker_2", "cluster")


@pytest.fixture(params=["embedded", "company"])
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Segments and SQLite; Kafka and PostgreSQL, where channels run in real-time mode."""
    settings = Settings(
        data=tmp_path,
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        flush_interval_s=3.0,
    )
    if request.param == "embedded":
        return settings
    kafka, postgresql = (request.getfixturevalue(name) for name in ("kafka", "postgresql"))
    return msgspec.structs.replace(
        settings,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=2.0,
    )


async def test_nothing_is_lost_doubled_or_reordered_when_the_database_is_killed(
    mariadb: MariaDB, tmp_path: Path
) -> None:
    """And is away for longer than anybody waits for it: then runs fail, and are made up for."""
    settings = Settings(
        data=tmp_path,
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        flush_interval_s=2.0,
        store=mariadb.fresh(),
    )
    async with System(settings) as system:
        admin = Client(cluster=system.cluster_url, token=system.token("admin", "admin"))
        await admin.sql(STATEMENTS)
        listeners = audience(system)
        await asyncio.gather(*(listener.start() for listener in listeners))
        publisher = Publisher(system)
        publishing = [asyncio.create_task(publisher.run(number)) for number in range(2)]
        await growing(publisher)
        mariadb.kill()
        await growing(publisher)  # the log needs no database
        await told_unavailable(admin)
        await asyncio.to_thread(mariadb.start)
        await growing(publisher)
        publisher.stopping = True
        await asyncio.gather(*publishing)
        await publisher.close()
        await until_quiet(listeners, publisher)

        await assert_promises(listeners, publisher, admin)
        assert system.restarts("cluster") == 0
        await asyncio.gather(*(listener.stop() for listener in listeners))
        await admin.close()


async def told_unavailable(admin: Client) -> None:
    """Wait until calls are answered with what the cluster waits for."""
    async with asyncio.timeout(60):
        while True:
            try:
                await admin.sql("SHOW BROKERS")
            except Unavailable as error:
                if "cannot answer" in error.message:
                    return


async def test_nothing_is_lost_doubled_or_reordered_when_services_are_killed(
    profile: Settings,
) -> None:
    async with System(profile, brokers=2) as system:
        admin = Client(cluster=system.cluster_url, token=system.token("admin", "admin"))
        await admin.sql(STATEMENTS)
        listeners = audience(system)
        await asyncio.gather(*(listener.start() for listener in listeners))
        publisher = Publisher(system)
        first = await publisher.publish("first", "flood")
        publisher.acknowledged["flood"].add("first")
        publishing = [asyncio.create_task(publisher.run(number)) for number in range(3)]
        await growing(publisher)
        for victim in VICTIMS[:-1]:  # one after the other
            await system.kill(victim)
            await asyncio.sleep(0.3)
            await system.ready(victim)
            await growing(publisher)
        for victim in VICTIMS:  # one before the other is back
            await system.kill(victim)
            await asyncio.sleep(0.3)
        for victim in VICTIMS:
            await system.ready(victim)
        await growing(publisher)
        publisher.stopping = True
        await asyncio.gather(*publishing)
        assert await publisher.publish("first", "flood") == first  # restarts later
        await publisher.close()
        await until_quiet(listeners, publisher)

        await assert_promises(listeners, publisher, admin)
        restarts = {name: 1 if name == "cluster" else 2 for name in system.names}
        assert {name: system.restarts(name) for name in system.names} == restarts
        await asyncio.gather(*(listener.stop() for listener in listeners))
        await admin.close()
