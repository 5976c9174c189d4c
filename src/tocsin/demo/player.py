"""Plays a course in real time: records are published and actors act, each when its time has come.

Keeps the order of each actor's acts and of each dataset's records, whatever the services' pace;
never waits for one of them before it goes on with another. Knows no service, no city and no study:
those who play (the demo, the lab's live studies) say what is done and when.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

TICK_S = 0.02  # acts so close to each other are begun together
IDLE_S = 0.02

Record = dict[str, Any]
Act = Callable[[], Awaitable[None]]
Send = Callable[[str, Sequence[Record]], Awaitable[None]]
Complete = Callable[[Record], Awaitable[Record] | None]


class Timed(NamedTuple):
    """Something to begin at a second of the course; it does not wait for what it begins."""

    at_s: float
    begin: Callable[[], object]


class Publisher:
    """Sends records in order; what comes while a call is under way travels in the next one. A
    record that must be completed first (`complete` gives something to wait for) holds up no
    other."""

    def __init__(self, send: Send, complete: Complete = lambda _: None) -> None:
        self._send = send
        self._complete = complete
        self._completing: set[asyncio.Task[None]] = set()
        self._waiting: defaultdict[str, list[Record]] = defaultdict(list)
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._failure: Exception | None = None

    @property
    def busy(self) -> bool:
        return bool(self._sending or self._completing)

    def publish(self, dataset: str, record: Record) -> None:
        """Take a record; raises what an earlier call failed with."""
        self._check()
        whole = self._complete(record)
        if whole is None:
            self._take(dataset, record)
            return
        task = asyncio.create_task(self._take_later(dataset, whole))
        self._completing.add(task)
        task.add_done_callback(self._completing.discard)

    async def finished(self) -> None:
        """Wait until everything is acknowledged; raises what a call failed with."""
        while self.busy:
            await asyncio.wait([*self._completing, *self._sending.values()])
        self._check()

    def _take(self, dataset: str, record: Record) -> None:
        self._waiting[dataset].append(record)
        if dataset not in self._sending:
            self._sending[dataset] = asyncio.create_task(self._drain(dataset))

    async def _take_later(self, dataset: str, whole: Awaitable[Record]) -> None:
        try:
            self._take(dataset, await whole)
        except Exception as failure:
            self._failure = failure

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _drain(self, dataset: str) -> None:
        try:
            while self._waiting[dataset]:
                records, self._waiting[dataset] = self._waiting[dataset], []
                await self._send(dataset, records)
        except Exception as failure:
            self._failure = failure
        finally:
            del self._sending[dataset]


class Actor:
    """Does what it is asked to, one thing after the other."""

    player: Player | None = None  # whose play an act's error ends

    def __init__(self) -> None:
        self._last: asyncio.Task[None] | None = None
        self._acting: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        return any(not task.done() for task in self._acting)

    def then(self, act: Act) -> asyncio.Task[None]:
        """Do this as soon as everything before it is done."""
        self._last = self.concurrently(act, self._last)
        return self._last

    def concurrently(self, act: Act, after: asyncio.Task[None] | None = None) -> asyncio.Task[None]:
        """Do this when `after` is done, and let nothing else wait for it."""
        task = asyncio.create_task(self._act(act, after))
        self._acting.add(task)
        task.add_done_callback(self._acting.discard)
        return task

    async def give_up(self) -> None:
        """Do nothing further of what was asked."""
        tasks = list(self._acting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def failed(self, error: Exception) -> None:
        """What becomes of an act's error."""
        if self.player is None:
            raise error
        self.player.end(error)

    async def _act(self, act: Act, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait([after])
        try:
            await act()
        except Exception as error:
            self.failed(error)


class Player:
    def __init__(
        self,
        actors: Collection[Actor] = (),
        publisher: Publisher | None = None,
        tick_s: float = TICK_S,
    ) -> None:
        self._actors = actors
        for actor in actors:
            actor.player = self
        self._publisher = publisher
        self._tick_s = tick_s
        self._failure: Exception | None = None
        self._ended = asyncio.Event()
        self._start = 0.0
        self.elapsed_s = 0.0  # of the course
        self.behind_s = 0.0  # the most by which an act was late

    @property
    def now_s(self) -> float:
        """Since the course began."""
        return asyncio.get_running_loop().time() - self._start

    def end(self, failure: Exception) -> None:
        """What is played ends with this error."""
        self._failure = self._failure or failure
        self._ended.set()

    async def play(self, course: Iterable[Timed], duration_s: float = 0.0) -> None:
        """The course, at least this long and until everything that it asked for is done."""
        self._start = asyncio.get_running_loop().time()
        for act in course:
            wait_s = act.at_s - self.now_s
            if wait_s > self._tick_s:
                await self._wait(wait_s)
            self.behind_s = max(self.behind_s, -wait_s)
            self.elapsed_s = act.at_s
            act.begin()
        await self._wait(duration_s - self.now_s)
        self.elapsed_s = max(self.elapsed_s, duration_s)
        await self.idle()

    async def idle(self) -> None:
        """Wait until nobody is in the middle of something."""
        if self._publisher is not None:
            await self._publisher.finished()
        while any(actor.busy for actor in self._actors):
            await self._wait(IDLE_S)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), max(0.0, seconds))
        if self._failure is not None:
            raise self._failure


async def few_at_a_time(calls: Iterable[Coroutine[Any, Any, None]], at_once: int) -> None:
    """Until all are done, or one fails: then the others end, too."""
    free = asyncio.Semaphore(at_once)

    async def limited(call: Coroutine[Any, Any, None]) -> None:
        async with free:
            await call

    tasks = [asyncio.create_task(limited(call)) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
