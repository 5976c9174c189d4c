"""The cluster that leads is told what this writer has stored.

One call is under way; what comes meanwhile is gathered for the next. While nobody leads, as much
waits as there is room for, and the oldest goes first when there is no more. That delays, and loses
nothing: brokers ask by themselves what is new, and deliveries look.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from random import Random

import httpx
import msgspec
import structlog
from msgspec import Raw
from msgspec.structs import replace
from prometheus_client import Counter

from tocsin.backoff import Backoff
from tocsin.client.addresses import PASSING, Addresses
from tocsin.client.transport import HttpClient, distrust
from tocsin.errors import Unavailable
from tocsin.protocol.commits import Commits, StoredResults
from tocsin.protocol.failure import read_error
from tocsin.service.keys.credentials import Credential
from tocsin.storage.store.runs import Committed

log = structlog.get_logger()

UNTOLD = Counter("tocsin_commits_untold_total", "Commits that the cluster was not told of")

ROOM_BYTES = 8 * 1024 * 1024  # of what waits
CALL_BYTES = 4 * 1024 * 1024  # of one call; a commit with more is told by its heads
AROUND_BYTES = 80  # what a call says beside a result's payload
ANSWERED_S = 5.0


class Telling:
    """Called in one event loop."""

    def __init__(self, cluster_url: str, credential: Credential, authority: str = "") -> None:
        self._addresses = Addresses(cluster_url, "cluster_url")
        self._credential = credential
        self._http = HttpClient(speaker="this writer", authority=authority, timeout=ANSWERED_S)
        self._waiting: deque[tuple[StoredResults, int]] = deque()
        self._size_bytes = 0
        self._new = asyncio.Event()

    def committed(self, committed: Committed) -> None:
        stored, size_bytes = _recorded(committed)
        while self._waiting and self._size_bytes + size_bytes > ROOM_BYTES:
            self._size_bytes -= self._waiting.popleft()[1]
            UNTOLD.inc()
        self._waiting.append((stored, size_bytes))
        self._size_bytes += size_bytes
        self._new.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        backoff = Backoff(Random(), first_s=0.05, most_s=1.0)
        try:
            while True:
                await self._new.wait()
                body = self._next()
                taken = await self._tell(body)
                while not taken:
                    await asyncio.sleep(backoff.next_s())
                    taken = await self._tell(body)
                backoff.reset()
        finally:
            await self._http.aclose()

    def _next(self) -> list[StoredResults]:
        """As much as one call takes."""
        body: list[StoredResults] = []
        left_bytes = CALL_BYTES
        while self._waiting and (not body or self._waiting[0][1] <= left_bytes):
            stored, size_bytes = self._waiting.popleft()
            body.append(stored)
            left_bytes -= size_bytes
            self._size_bytes -= size_bytes
        if not self._waiting:
            self._new.clear()
        return body

    async def _tell(self, body: Iterable[StoredResults]) -> bool:
        """False: nobody leads, or it cannot answer now."""
        content = msgspec.json.encode(Commits(list(body)))

        async def send(address: str) -> httpx.Response:
            headers = {
                "authorization": f"Bearer {self._credential.token()}",
                "content-type": "application/json",
            }
            return await self._http.post(f"{address}/v1/commits", content=content, headers=headers)

        try:
            answer = await self._addresses.ask(self._http, send)
        except httpx.HTTPError as lost:
            log.debug("the cluster was not told", reason=distrust(lost) or str(lost))
            return False
        if answer.status_code in PASSING:
            return False
        error = read_error(answer.content)
        if isinstance(error, Unavailable):
            return False
        if error is not None:  # it will not take this one; brokers ask
            UNTOLD.inc()
            log.error("the cluster does not take what was stored", reason=str(error))
        return True


def _recorded(committed: Committed) -> tuple[StoredResults, int]:
    size_bytes = committed.bytes + AROUND_BYTES * (committed.count + len(committed.heads))
    stored = StoredResults(
        committed.channel,
        committed.sequence,
        committed.heads,
        committed.backends,
        committed.positions,
        [Raw(payload) for payload in committed.payloads],
        committed.at,
    )
    if size_bytes <= CALL_BYTES:
        return stored, size_bytes
    return replace(stored, backends=[], positions=[], values=[]), AROUND_BYTES * len(stored.heads)
