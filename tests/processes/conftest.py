"""One live system of real processes for the tests that only talk to it."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tocsin.client import Client
from tocsin.dev.kafka import Kafka
from tocsin.dev.s3 import S3
from tocsin.settings import Settings
from tocsin.system import System

from .load import short_lived


@pytest.fixture(params=["embedded", "company"])
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Segments and SQLite; Kafka and PostgreSQL, where channels run in real-time mode."""
    if request.param == "embedded":
        return short_lived(tmp_path)
    kafka, postgresql = (request.getfixturevalue(name) for name in ("kafka", "postgresql"))
    return short_lived(
        tmp_path,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=2.0,
    )


@pytest.fixture(scope="package")  # no longer than needed: it is never quite idle
def live(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[System]:
    """Runs in a loop of its own, so that every test may have its own as well."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    kafka = "" if Kafka.missing() else request.getfixturevalue("kafka").url
    attachments = "" if S3.missing() else request.getfixturevalue("s3").fresh()
    settings = short_lived(
        tmp_path_factory.mktemp("live"),
        kafka=kafka,
        attachments=attachments,
        attachment_grace_s=60.0,
        body_limit_bytes=1_000_000,
        record_limit_bytes=10_000,
    )
    system = System(settings, brokers=2)
    try:
        asyncio.run_coroutine_threadsafe(system.start(), loop).result(180)
        yield system
    finally:
        asyncio.run_coroutine_threadsafe(system.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@pytest.fixture
async def client(live: System, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Of maria, who may do everything, after the statements BASE of the test's module."""
    token = live.token("maria", "admin", "publish", "subscribe")
    async with Client(live.coordinator_url, cluster=live.cluster_url, token=token) as made:
        await made.sql(request.module.BASE)
        yield made
