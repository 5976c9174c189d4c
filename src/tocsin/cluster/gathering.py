"""Subscriptions that are asked for at the same time share a transaction of the store.

The first goes at once; who comes while it is written waits, and all of these go together. Each
hears of its own subscriptions or its own error. Must not know HTTP, statements or channels.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tocsin.errors import Unavailable
from tocsin.model import Subscription
from tocsin.storage.store.subscribing import Asked, Made
from tocsin.storage.store.subscriptions import Subscriptions

MOST_WISHES = 2000
"""Wishes in one transaction, unless one caller alone has more: other writers wait for its end."""

Outcome = list[Subscription] | Exception


class _Waiting(NamedTuple):
    asked: Asked
    outcome: asyncio.Future[list[Subscription]]


class Gathering:
    """For one event loop."""

    def __init__(
        self,
        store: Subscriptions,
        made: Callable[[Sequence[Subscription]], None],
        tell: Callable[[Sequence[Subscription]], None],
    ) -> None:
        """Of each caller's subscriptions `made` is called on a thread, and may raise; then of all
        together `tell` on the loop, before any caller hears of them."""
        self._store = store
        self._made = made
        self._announce = tell
        self._waiting: deque[_Waiting] = deque()
        self._running: asyncio.Task[None] | None = None

    async def subscribe(self, asked: Asked) -> list[Subscription]:
        """All that is asked for, or an error and nothing."""
        outcome: asyncio.Future[list[Subscription]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(asked, outcome))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await outcome

    async def _run(self) -> None:
        try:
            while self._waiting:
                together = self._take()
                asked = [waiting.asked for waiting in together]
                outcomes = await asyncio.to_thread(self._carry_out, asked)
                self._tell(outcomes)
                for waiting, outcome in zip(together, outcomes, strict=True):
                    if waiting.outcome.done():  # who asked has left
                        continue
                    if isinstance(outcome, Exception):
                        waiting.outcome.set_exception(outcome)
                    else:
                        waiting.outcome.set_result(outcome)
        finally:
            self._running = None

    def _take(self) -> list[_Waiting]:
        together = [self._waiting.popleft()]
        count = len(together[0].asked.wishes)
        while self._waiting:
            count += len(self._waiting[0].asked.wishes)
            if count > MOST_WISHES:
                break
            together.append(self._waiting.popleft())
        return together

    def _tell(self, outcomes: Sequence[Outcome]) -> None:
        made = [
            made for outcome in outcomes if not isinstance(outcome, Exception) for made in outcome
        ]
        if made:
            self._announce(made)

    def _carry_out(self, asked: Sequence[Asked]) -> list[Outcome]:
        try:
            outcomes = self._store.subscribe_together(asked)
        except Unavailable as error:
            return [error] * len(asked)
        except Exception as error:
            if len(asked) == 1:
                return [error]
            # What the database does not take of one must not harm the others.
            return [outcome for caller in asked for outcome in self._carry_out([caller])]
        return [self._finished(outcome) for outcome in outcomes]

    def _finished(self, outcome: Made | Exception) -> Outcome:
        if isinstance(outcome, Exception):
            return outcome
        subscriptions = [subscription for subscription, _ in outcome]
        try:
            self._made(subscriptions)
        except Exception as error:
            return error
        return subscriptions
