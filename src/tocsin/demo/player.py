"""Plays a trace in real time: publications to the cluster, comings and goings to each subscriber.

Keeps the order of each subscriber's events and of each dataset's records, whatever the services'
pace; never waits for one of them before it goes on with another. Knows no service by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from tocsin.demo.reports import Record, stamped
from tocsin.demo.trace import Event, Login, Logout, Publish, Subscribe, Trace, Unsubscribe
from tocsin.model import Arguments

LOGINS_AT_ONCE = 24
TICK_S = 0.02  # events so close to each other are played together

Send = Callable[[str, Sequence[Record]], Awaitable[None]]


class Subscriber(Protocol):
    """What the player needs of a subscriber (`visit.Person`)."""

    @property
    def busy(self) -> bool: ...
    def then(self, act: Callable[[], Awaitable[None]]) -> asyncio.Task[None]: ...
    async def login(self) -> None: ...
    async def logout(self) -> None: ...
    async def subscribe_all(self, wishes: list[tuple[str, Arguments]]) -> None: ...
    async def subscribe(self, channel: str, arguments: Arguments) -> None: ...
    async def unsubscribe(self, channel: str, arguments: Arguments) -> None: ...


class Publisher:
    """Sends records in order; what comes while a call is under way travels in the next one."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: defaultdict[str, list[Record]] = defaultdict(list)
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._failure: Exception | None = None

    @property
    def busy(self) -> bool:
        return bool(self._sending)

    def publish(self, dataset: str, record: Record) -> None:
        """Take a record; raises what an earlier call failed with."""
        self._check()
        self._waiting[dataset].append(stamped(record, time.time()))
        if dataset not in self._sending:
            self._sending[dataset] = asyncio.create_task(self._drain(dataset))

    async def finished(self) -> None:
        """Wait until everything is acknowledged; raises what a call failed with."""
        while self._sending:
            await asyncio.wait(self._sending.values())
        self._check()

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


class Player:
    def __init__(
        self, trace: Trace, people: Mapping[str, Subscriber], publisher: Publisher
    ) -> None:
        self.trace = trace
        self._people = people
        self._publisher = publisher
        self.elapsed_s = 0.0  # of the course, in the trace's own (compressed) time
        self.behind_s = 0.0  # the most by which an event was late

    async def open(self) -> None:
        """The opening: everybody comes, a few at a time, and subscribes to all they wish for."""
        wishes: dict[str, list[tuple[str, Arguments]]] = {}
        for event in self.trace.opening:
            match event:
                case Publish():
                    self._publisher.publish(event.dataset, event.record)
                case Login():
                    wishes.setdefault(event.subscriber, [])
                case Subscribe():
                    wishes[event.subscriber].append((event.channel, event.arguments))
        gate = asyncio.Semaphore(LOGINS_AT_ONCE)

        async def enter(name: str) -> None:
            person = self._people[name]
            async with gate:
                await person.then(person.login)
                await person.then(lambda: person.subscribe_all(wishes[name]))

        await asyncio.gather(*map(enter, wishes))
        await self._publisher.finished()

    async def play(self) -> None:
        """The course, up to its end and until everything it asked for is done."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for event in self.trace.course:
            wait_s = start + event.at_s - loop.time()
            if wait_s > TICK_S:
                await asyncio.sleep(wait_s)
            self.behind_s = max(self.behind_s, -wait_s)
            self.elapsed_s = event.at_s
            self._do(event)
        await asyncio.sleep(max(0.0, start + self.trace.duration_s - loop.time()))
        self.elapsed_s = self.trace.duration_s
        await self.idle()

    async def idle(self) -> None:
        """Wait until nobody is in the middle of something."""
        await self._publisher.finished()
        while any(person.busy for person in self._people.values()):  # noqa: ASYNC110 (bounded)
            await asyncio.sleep(0.02)

    async def all_in(self) -> None:
        """Everybody comes (back), so that whoever was away is told what happened."""
        gate = asyncio.Semaphore(LOGINS_AT_ONCE)

        async def enter(person: Subscriber) -> None:
            async with gate:
                await person.then(person.login)

        await asyncio.gather(*map(enter, self._people.values()))

    def _do(self, event: Event) -> None:
        match event:
            case Publish():
                self._publisher.publish(event.dataset, event.record)
            case Login():
                person = self._people[event.subscriber]
                person.then(person.login)
            case Logout():
                person = self._people[event.subscriber]
                person.then(person.logout)
            case Subscribe() | Unsubscribe():
                self._change(self._people[event.subscriber], event)

    def _change(self, person: Subscriber, event: Subscribe | Unsubscribe) -> None:
        act = person.subscribe if isinstance(event, Subscribe) else person.unsubscribe
        person.then(lambda: act(event.channel, event.arguments))
