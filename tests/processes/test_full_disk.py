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

from .load import short_lived, under_load

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
    settings = short_lived(small_disk / "data", flush_interval_s=1.0)
    async with under_load(settings) as load:
        ballast = small_disk / "ballast"
        fill(ballast)
        refusals = set()
        headers = {"Authorization": f"Bearer {load.system.token('eve', 'publish')}"}
        async with httpx.AsyncClient(headers=headers, timeout=10) as http:
            url = f"{load.system.cluster_url}/v1/datasets/tries/records"
            for _ in range(round(FULL_S)):
                fill(ballast)  # what others let go of is taken, too
                refused = await http.post(url, content=b'{"reason": "try"}')
                refusals.add((refused.status_code, refused.json().get("error", {}).get("hint")))
                await asyncio.sleep(1)
        assert (503, "free disk space and publish again") in refusals
        ballast.unlink()
        await load.growing()
        await load.growing()
        await load.judge()
        async with httpx.AsyncClient(timeout=10) as http:
            assert (await http.get(f"{load.system.cluster_url}/healthz")).status_code == 200
