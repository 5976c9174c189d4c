"""A full disk: publishers are told, channels wait where they stand, and when there is room again
everything goes on by itself. Nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from real_servers import skip_or_fail
from tocsin.client import Client
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

from .load import STATEMENTS, Publisher, assert_promises, audience, growing, until_quiet

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

FULL_S = 12.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, for the data directory alone."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode != 0:
        skip_or_fail("a file system that can be filled takes the right to mount one")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(ballast: Path) -> None:
    """To the last byte."""
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(file.fileno(), b"\0" * size)


async def test_nothing_acknowledged_is_lost_to_a_full_disk(small_disk: Path) -> None:
    settings = Settings(
        data=small_disk / "data",
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        flush_interval_s=1.0,
    )
    async with System(settings, brokers=1) as system:
        admin = Client(cluster=system.cluster_url, token=system.token("admin", "admin", "publish"))
        await admin.sql(STATEMENTS)
        listeners = audience(system)
        await asyncio.gather(*(listener.start() for listener in listeners))
        publisher = Publisher(system)
        publishing = [asyncio.create_task(publisher.run(number)) for number in range(3)]
        await growing(publisher)
        ballast = small_disk / "ballast"
        fill(ballast)
        refusals = set()
        headers = {"Authorization": f"Bearer {system.token('eve', 'publish')}"}
        async with httpx.AsyncClient(headers=headers, timeout=10) as http:
            url = f"{system.cluster_url}/v1/datasets/dead_letters/records"
            for _ in range(round(FULL_S)):
                fill(ballast)  # what others let go of is taken, too
                refused = await http.post(url, content=b'{"reason": "try"}')
                refusals.add((refused.status_code, refused.json().get("error", {}).get("hint")))
                await asyncio.sleep(1)
        assert (503, "free disk space and publish again") in refusals
        ballast.unlink()
        await growing(publisher)
        await growing(publisher)
        publisher.stopping = True
        await asyncio.gather(*publishing)
        await publisher.close()
        await until_quiet(listeners, publisher)
        await assert_promises(listeners, publisher, admin)
        async with httpx.AsyncClient(timeout=10) as http:
            assert (await http.get(f"{system.cluster_url}/healthz")).status_code == 200
        await asyncio.gather(*(listener.stop() for listener in listeners))
        await admin.close()
