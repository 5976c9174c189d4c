"""Who may read a page here: the cluster decides, and what it decided is remembered.

While nothing private holds attachments, it is asked once in a few seconds for all; else once for
each reader and the result that led there.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from tocsin.errors import Forbidden, NotFound, Unavailable
from tocsin.protocol.queries import LedByQuery
from tocsin.service.tokens import Identity

OPEN_S = 5.0  # so long after the first private channel pages may still be read by all
REMEMBERED = 50_000
FREE = frozenset({"admin", "broker"})

Ask = Callable[[str, LedByQuery, str], Awaitable[bool]]
"""Raises unless a page may be read by whose token it is; whether it is private."""


class Readers:
    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._private = False  # what the cluster said last
        self._open_at: float | None = None  # when it last said that all may read
        self._granted: OrderedDict[tuple[str, str, object], None] = OrderedDict()
        self._asking = asyncio.Lock()

    async def check(
        self, identity: Identity, token: str, page: str, led_by: LedByQuery, mine: bool
    ) -> None:
        """Raises unless they may read the page. `mine`: the subscription that led there is theirs,
        and is served here."""
        if identity.scopes & FREE or self._is_open():
            return
        reader = identity.subject, page, led_by.subscription
        if mine and reader in self._granted:
            self._granted.move_to_end(reader)
            return
        if not self._private:
            async with self._asking:  # one answer may be for all
                if self._is_open() or await self._may_all_read(page, led_by, token):
                    return
        else:
            await self._asked(page, led_by, token)
        self._granted[reader] = None
        if len(self._granted) > REMEMBERED:
            self._granted.popitem(last=False)

    def _is_open(self) -> bool:
        return self._open_at is not None and self._clock() - self._open_at < OPEN_S

    async def _may_all_read(self, page: str, led_by: LedByQuery, token: str) -> bool:
        try:
            return not await self._asked(page, led_by, token)
        except Unavailable:
            if self._open_at is None:
                raise
            return True  # it was so when the cluster last answered

    async def _asked(self, page: str, led_by: LedByQuery, token: str) -> bool:
        """Whether the page is private; raises if it is, and somebody else's."""
        try:
            self._private = await self._ask(page, led_by, token)
        except NotFound as error:
            self._private = error.field is not None  # an older cluster has no such route
            if self._private:
                raise
        except Forbidden:
            self._private = True
            raise
        self._open_at = None if self._private else self._clock()
        return self._private
