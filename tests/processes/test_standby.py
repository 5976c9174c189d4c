"""A leader that is killed, frozen or cut off from its store: a standby takes its place, publishers
and subscribers go on by themselves, and nothing is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import DEPOSED
from tocsin.system import System
from tocsin.system.processes import Process
from tocsin.system.system import ServiceEnvironment
from tocsin.testing.chaos.lines import Lines, to_store
from tocsin.testing.chaos.takeovers import SETTLED_S, Load, leader_of

from .load import short_lived

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
async def system(
    kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path, lines: Lines
) -> AsyncIterator[System]:
    settings = short_lived(
        tmp_path,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=2.0,
        warm_up=True,  # a standby is quick for it
        standbys=1,
        coordinators=2,
    )
    environment = ServiceEnvironment(
        lambda name, own: lines.through(name, own) if name.startswith("cluster") else own
    )
    system = System(settings, brokers=1, environment=environment)
    await lines.start()
    try:
        async with system:
            yield system
    finally:
        await lines.close()


async def test_a_standby_takes_the_place_of_a_leader_that_is_killed_frozen_or_cut_off(
    system: System, lines: Lines
) -> None:
    """How long each may take is in docs/decisions/0018; here they only have to end."""
    async with Load(system) as load:
        killed, at = await leader_of(system), time.monotonic()
        await system.kill(killed)
        print("killed", await load.shown_since(at))
        await until(lambda: system.restarts(killed) > 0)

        frozen, at = await leader_of(system), time.monotonic()
        assert frozen != killed
        process = Process.of(system.pid(frozen))
        process.pause()
        print("frozen", await load.shown_since(at))
        assert await leader_of(system) == killed
        process.resume()
        await until(lambda: system.restarts(frozen) > 0)
        assert system.exit_codes(frozen) == [DEPOSED]

        cut_off, at = await leader_of(system), time.monotonic()
        lines.proxies[to_store(cut_off)].set("stalled")
        print("cut off", await load.shown_since(at))
        assert await load.broken() == []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SETTLED_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
