"""Subscriptions that a broker asks the cluster for at the same time travel in one list.

A list is made whole or not at all, so that one which the cluster refuses is asked for again without
what was wrong with it: each asker hears of its own subscription or its own error. Must not know how
calls are made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tocsin.errors import InvalidInput, TocsinError, Unavailable
from tocsin.protocol.client import SubscriptionInfo
from tocsin.protocol.cluster import SubscriptionRequest

MOST_TOGETHER = 1000
SINGLE_CALLS = 16  # at once, when a list was refused
LISTS = 3  # that are tried, each without what the one before was refused for

Single = Callable[[SubscriptionRequest, str], Awaitable[SubscriptionInfo]]
Listed = Callable[[list[SubscriptionRequest], str], Awaitable[list[SubscriptionInfo]]]


class _Asked(NamedTuple):
    request: SubscriptionRequest
    answer: asyncio.Future[SubscriptionInfo]


class Subscribing:
    """By token: whoever shows one may be refused what others are not."""

    def __init__(self, single: Single, listed: Listed) -> None:
        self._single = single
        self._listed = listed
        self._waiting: dict[str, list[_Asked]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._takes_lists = True  # an older cluster does not

    async def subscribe(self, request: SubscriptionRequest, token: str) -> SubscriptionInfo:
        answer: asyncio.Future[SubscriptionInfo] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(token, []).append(_Asked(request, answer))
        if token not in self._running:
            self._running[token] = asyncio.create_task(self._run(token))
        return await answer

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, token: str) -> None:
        together: list[_Asked] = []
        try:
            while waiting := self._waiting.pop(token, []):
                together, later = waiting[:MOST_TOGETHER], waiting[MOST_TOGETHER:]
                if later:
                    self._waiting[token] = later
                await self._ask(together, token)
        finally:
            del self._running[token]
            for asked in (*together, *self._waiting.pop(token, [])):
                asked.answer.cancel()  # unless it was answered

    async def _ask(self, together: list[_Asked], token: str) -> None:
        for _ in range(LISTS):
            together = [asked for asked in together if not asked.answer.done()]
            if len(together) < 2 or not self._takes_lists:
                break
            try:
                infos = await self._listed([asked.request for asked in together], token)
            except Unavailable as error:
                for asked in together:
                    _fail(asked, error)
            except TocsinError as error:
                if error.index is None:
                    self._takes_lists = not isinstance(error, InvalidInput)
                    break
                index, error.index = error.index, None
                _fail(together[index], error)
            else:
                for asked, info in zip(together, infos, strict=True):
                    _answer(asked, info)
        await self._ask_singly([asked for asked in together if not asked.answer.done()], token)

    async def _ask_singly(self, together: list[_Asked], token: str) -> None:
        turns = asyncio.Semaphore(SINGLE_CALLS)

        async def ask(asked: _Asked) -> None:
            async with turns:
                try:
                    _answer(asked, await self._single(asked.request, token))
                except TocsinError as error:
                    _fail(asked, error)

        await asyncio.gather(*map(ask, together))


def _answer(asked: _Asked, info: SubscriptionInfo) -> None:
    if not asked.answer.done():
        asked.answer.set_result(info)


def _fail(asked: _Asked, error: TocsinError) -> None:
    if not asked.answer.done():
        asked.answer.set_exception(error)
