"""A broker's routes of attachments alone, over a directory of pages; no cluster is behind it."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import uvloop

from bench.control import answer, orders
from tocsin.broker.server.pages import Coming, Pages
from tocsin.broker.server.pages.calls import PageCalls, page_routes
from tocsin.broker.server.pages.shelf import DirectoryShelf, MemoryShelf, Shelf
from tocsin.broker.server.pages.sums import BLOCK_BYTES
from tocsin.errors import NotFound
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.web import application

CAPACITY_BYTES = 1 << 30


class _Nowhere:
    def attachment(self, id: str) -> AbstractAsyncContextManager[Coming]:
        raise NotFound(f"there is no attachment {id}")

    async def attachment_size(self, id: str) -> int:
        raise NotFound(f"there is no attachment {id}")


def _shelf(kind: str, directory: Path) -> Shelf:
    on_disk = DirectoryShelf(directory)
    if kind == "disk":
        return on_disk
    in_memory = MemoryShelf()
    in_memory.found = on_disk.found  # type: ignore[method-assign]
    for page, size_bytes in on_disk.found():
        body = in_memory.new()
        found = on_disk.open(page, 0)
        assert found is not None
        for start in range(0, size_bytes, BLOCK_BYTES):
            body.write(found.read(start, BLOCK_BYTES))
        in_memory.put(page, body)
    return in_memory


async def main(kind: str, directory: str, secret: str) -> None:
    def spawn(work: Any, *_: Any) -> asyncio.Task[None]:
        return asyncio.create_task(work)

    pages = Pages("lru", CAPACITY_BYTES, _shelf(kind, Path(directory)), _Nowhere(), spawn)
    await pages.start()
    calls = PageCalls(pages, lambda _: None, 60.0, lambda _: None)
    routes = application("bench", page_routes(calls), secret=secret, limit_bytes=1_000_000)
    listener = listen("127.0.0.1", 0)
    async with serving(routes, listener):
        answer(port=port_of(listener))
        async for _ in orders():
            answer(cpu_s=time.process_time())


if __name__ == "__main__":
    configure_logs("warning", "json")  # standard output is the benchmark's
    uvloop.run(main(*sys.argv[1:]))
