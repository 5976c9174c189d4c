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
from tocsin.broker.machine.effects import Effect
from tocsin.broker.machine.pages import Pages
from tocsin.broker.server.pages import Coming, PageBytes
from tocsin.broker.server.pages.calls import PageCalls, page_routes
from tocsin.broker.server.pages.shelf import DirectoryShelf, MemoryShelf, Shelf
from tocsin.broker.server.pages.sums import BLOCK_BYTES
from tocsin.errors import NotFound
from tocsin.policies.page import parse_page_policy
from tocsin.protocol.queries import LedByQuery
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.web import application

CAPACITY_BYTES = 1 << 30


class _Nowhere:
    def attachment(self, id: str) -> AbstractAsyncContextManager[Coming]:
        raise NotFound(f"there is no attachment {id}")

    async def attachment_size(self, id: str) -> int:
        raise NotFound(f"there is no attachment {id}")


async def _all_may_read(page: str, led_by: LedByQuery, token: str) -> bool:
    return False


def _shelf(kind: str, directory: Path) -> Shelf:
    on_disk = DirectoryShelf(directory)
    if kind == "disk":
        return on_disk
    in_memory = MemoryShelf()
    in_memory.whole_pages = on_disk.whole_pages  # type: ignore[method-assign]
    for page, size_bytes in on_disk.whole_pages():
        body = in_memory.new()
        kept = on_disk.open(page, 0)
        assert kept is not None
        for start in range(0, size_bytes, BLOCK_BYTES):
            body.write(kept.read(start, BLOCK_BYTES))
        in_memory.put(page, body)
    return in_memory


async def main(kind: str, directory: str, secret: str) -> None:
    def spawn(work: Any, *_: Any) -> asyncio.Task[None]:
        return asyncio.create_task(work)

    def perform(effects: list[Effect]) -> None:
        for effect in effects:
            pages.performers[type(effect)](effect)

    decisions = Pages(parse_page_policy("lru"), CAPACITY_BYTES)
    shelf = _shelf(kind, Path(directory))
    pages = PageBytes(decisions, shelf, _Nowhere(), spawn, perform)
    await pages.start()
    calls = PageCalls(pages, _all_may_read, lambda _: None, 60.0, lambda _: None)
    routes = application(
        "bench", page_routes(calls), verifier=TokenVerifier(secret=secret), limit_bytes=1_000_000
    )
    listener = listen("127.0.0.1", 0)
    async with serving(routes, listener):
        answer(port=port_of(listener))
        async for _ in orders():
            answer(cpu_s=time.process_time())


if __name__ == "__main__":
    configure_logs("warning", "json")  # standard output is the benchmark's
    uvloop.run(main(*sys.argv[1:]))
