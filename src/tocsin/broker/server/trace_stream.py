"""A recording as an HTTP answer: records as they come, until the caller hangs up.

Whoever records keeps the file; the broker keeps nothing. So a caller that dies, or stops reading,
ends its recording, and none can be forgotten. One at a time.
"""

from __future__ import annotations

import asyncio
import time

from tocsin.broker.machine.watching import NOBODY
from tocsin.broker.server.driver import Driver
from tocsin.broker.server.event_stream import EventResponse
from tocsin.broker.server.recorder import Recorder
from tocsin.errors import Conflict
from tocsin.protocol.trace import KEEP_ALIVE_S, MEDIA_TYPE
from tocsin.service.tokens import Identity

EVERY_S = 0.25  # records are gathered this long


class Recording:
    """One caller's recording, read as an event stream's line is."""

    def __init__(self, driver: Driver, identity: Identity) -> None:
        if driver.core.table.watcher is not NOBODY:
            raise Conflict("somebody records this broker already", hint="end that recording first")
        self.open = True
        self._driver = driver
        self._core = driver.core
        self.identity = identity
        self._recorder = Recorder(driver.core)
        self._over = asyncio.Event()
        self._told_at = time.monotonic()

    def close(self, code: int = 0, reason: str = "") -> None:
        """What was recorded so far is still sent."""
        self.open = False
        self._recorder.end()
        self._over.set()

    async def next(self) -> bytes:
        """Records; empty: the recording has ended."""
        while True:
            await self._wait(EVERY_S if self._recorder.aligned else 0.0)
            now = time.monotonic()
            if self.open and now - self._told_at >= KEEP_ALIVE_S:
                self._recorder.quiet()
            records = self._recorder.take()
            if records:
                self._told_at = now
            if records or not self.open:
                return records

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            expired = time.time() >= self.identity.expires_at
            replaced = self._driver.core is not self._core  # with all that was known of it
            if expired or replaced or not self._recorder.open:
                self.close()


class TraceResponse(EventResponse):
    media_type = MEDIA_TYPE
