"""Who opens a picture: some time after a report was displayed, some of those who saw it do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from tocsin.client.attachments import attached_fields
from tocsin.client.feed import Result
from tocsin.errors import TocsinError

OPENED_SHARE = 0.02  # of displayed reports with a picture
LATER_S = 120.0  # so much later on average, in the city's time
OPENED_AT_ONCE = 16

Open = Callable[[str, str, Result, str], Awaitable[None]]
"""Opens a field of a result: broker, token, result, field."""


class Gallery:
    def __init__(self, open_: Open, seed: int, speed: float, mishaps: list[str]) -> None:
        self.opened = 0
        self._open = open_
        self._random = Random(f"{seed} openings")
        self._later_s = LATER_S / speed
        self._mishaps = mishaps
        self._gate = asyncio.Semaphore(OPENED_AT_ONCE)
        self._openings: set[asyncio.Task[None]] = set()

    def shown(self, broker: str, token: str, result: Result) -> None:
        """Somebody sees this result, and may want to see more."""
        if self._random.random() >= OPENED_SHARE:
            return
        for field in attached_fields(result):
            later_s = self._random.expovariate(1 / self._later_s)
            task = asyncio.create_task(self._later(later_s, broker, token, result, field))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)

    async def close(self) -> None:
        """Whoever has not begun to look does not any more."""
        openings = list(self._openings)
        for task in openings:
            task.cancel()
        await asyncio.gather(*openings, return_exceptions=True)

    async def _later(
        self, later_s: float, broker: str, token: str, result: Result, field: str
    ) -> None:
        await asyncio.sleep(later_s)
        try:
            async with self._gate:
                await self._open(broker, token, result, field)
            self.opened += 1
        except TocsinError as error:
            self._mishaps.append(f"a picture: {error}")
