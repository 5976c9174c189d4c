"""kill -9 of a broker in the middle of a fill: no half page is ever served."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import httpx
import pytest

from broker.test_pages import MAP, PHOTO, files, halted, id_of, path_of
from broker.test_process import free_port, line_with, start
from broker.world import World, token, until

pytestmark = pytest.mark.processes


async def test_a_killed_broker_serves_whole_pages_only(world: World, tmp_path: Path) -> None:
    content = world.cluster.content
    for data in (MAP, PHOTO):
        content.add(data)
    headers = {"authorization": f"Bearer {token('ann')}"}
    for life in (1, 2):
        port = free_port()
        process = await start(
            "tocsin.broker.server",
            cluster_url=world.cluster.url,
            broker_port=port,
            broker_ws_port=free_port(),
            page_cache=tmp_path,
            page_policy="lru",
        )
        try:
            await line_with(process, "broker ready")
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=20
            ) as http:
                assert (await http.get(path_of(MAP))).content == MAP
                await until(lambda: id_of(MAP) in files(tmp_path))
                if life == 1:
                    with halted(world.cluster):
                        asking = asyncio.create_task(http.get(path_of(PHOTO)))
                        await until(lambda: any(_sizes(tmp_path / "broker_1" / "incoming")))
                        process.kill()
                        await process.wait()
                        with pytest.raises(httpx.HTTPError):
                            await asking
                    assert len(files(tmp_path)) == 2  # the whole one, and half of the other
                else:
                    assert files(tmp_path) == [id_of(MAP)]
                    assert (await http.get(path_of(PHOTO))).content == PHOTO
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert content.asked == [id_of(MAP), id_of(PHOTO), id_of(PHOTO)]


def _sizes(directory: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [path.stat().st_size for path in directory.iterdir()]
    return []
