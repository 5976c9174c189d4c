"""How long an event loop leaves everybody waiting."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator

TICK_S = 0.005


class LoopWatch:
    """Counts the processor time that this process used while its loop could not turn: what other
    programs take of the machine is not its fault."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        while True:
            began, used_s = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK_S)
            waited_s = time.perf_counter() - began - TICK_S
            self.longest_s = max(self.longest_s, min(waited_s, time.process_time() - used_s))


@contextlib.asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopWatch]:
    """What earlier tests left is not searched for garbage meanwhile: that takes a second."""
    gc.collect()
    gc.freeze()
    watch = LoopWatch()
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        gc.unfreeze()
