"""A full disk: publishers are told, channels wait where they stand, and when there is room again
everything goes on by itself. Nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from full_disk import fill, make_room, small_disk

from .load import short_lived, under_load

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

FULL_S = 12.0


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[Path]:
    """For the data directory alone."""
    with small_disk(tmp_path / "disk", "128m") as disk:
        yield disk


def stored(data: Path) -> set[Path]:
    """What the log's older part became."""
    return set((data / "datasets").glob("*/*.parquet"))


async def test_nothing_acknowledged_is_lost_to_a_full_disk(disk: Path) -> None:
    settings = short_lived(disk / "data", flush_interval_s=1.0)
    async with under_load(settings) as load:
        fill(disk)
        refusals = set()
        headers = {"Authorization": f"Bearer {load.system.token('eve', 'publish')}"}
        async with httpx.AsyncClient(headers=headers, timeout=10) as http:
            url = f"{load.system.cluster_url}/v1/datasets/tries/records"
            for _ in range(round(FULL_S)):
                fill(disk)  # what others let go of is taken, too
                refused = await http.post(url, content=b'{"reason": "try"}')
                refusals.add((refused.status_code, refused.json().get("error", {}).get("hint")))
                await asyncio.sleep(1)
            health = await http.get(f"{load.system.cluster_url}/healthz")
        assert (503, "free disk space and publish again") in refusals
        assert health.status_code == 503
        assert f"the disk of {settings.data} is full" in health.json()["status"]
        before = stored(settings.data)
        make_room(disk)
        await load.growing()
        await load.growing()
        await load.judge()
        assert stored(settings.data) - before
        async with httpx.AsyncClient(timeout=10) as http:
            assert (await http.get(f"{load.system.cluster_url}/healthz")).status_code == 200
