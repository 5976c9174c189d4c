"""How a trace of the city is played: its events as acts of people and records of reporters."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial

from tocsin.demo.player import Act, Actor, Player, Publisher, Record, Timed, few_at_a_time
from tocsin.demo.reports import stamped
from tocsin.demo.trace import Event, Login, Logout, Publish, Subscribe, Trace, Unsubscribe
from tocsin.model import Arguments

LOGINS_AT_ONCE = 24


class Subscriber(Actor):
    """What people do in a trace (`visit.Person`)."""

    @abstractmethod
    async def login(self) -> None: ...
    @abstractmethod
    async def logout(self) -> None: ...
    @abstractmethod
    async def subscribe_all(self, wishes: list[tuple[str, Arguments]]) -> None: ...
    @abstractmethod
    async def subscribe(self, channel: str, arguments: Arguments) -> None: ...
    @abstractmethod
    async def unsubscribe(self, channel: str, arguments: Arguments) -> None: ...


class CityPlayer(Player):
    def __init__(
        self, trace: Trace, people: Mapping[str, Subscriber], publisher: Publisher
    ) -> None:
        super().__init__(people.values(), publisher)
        self.trace = trace
        self._people = people
        self._reporters = publisher

    def publish(self, dataset: str, record: Record) -> None:
        """The record is stamped when it happens, not when its call goes out."""
        self._reporters.publish(dataset, stamped(record, time.time()))

    async def open(self) -> None:
        """The opening: everybody comes, a few at a time, and subscribes to all they wish for."""
        wishes: dict[str, list[tuple[str, Arguments]]] = {}
        for event in self.trace.opening:
            match event:
                case Publish():
                    self.publish(event.dataset, event.record)
                case Login():
                    wishes.setdefault(event.subscriber, [])
                case Subscribe():
                    wishes[event.subscriber].append((event.channel, event.arguments))

        async def enter(name: str) -> None:
            person = self._people[name]
            await person.then(person.login)
            await person.then(lambda: person.subscribe_all(wishes[name]))

        await few_at_a_time(map(enter, wishes), LOGINS_AT_ONCE)
        await self._reporters.finished()

    async def course(self) -> None:
        """Everything after the opening, up to the trace's end."""
        acts = [Timed(event.at_s, partial(self._begin, event)) for event in self.trace.course]
        await self.play(acts, self.trace.duration_s)

    async def all_in(self) -> None:
        """Everybody comes (back), so that whoever was away is told what happened."""

        async def enter(person: Subscriber) -> None:
            await person.then(person.login)

        await few_at_a_time(map(enter, self._people.values()), LOGINS_AT_ONCE)

    def _begin(self, event: Event) -> None:
        match event:
            case Publish():
                self.publish(event.dataset, event.record)
            case Login() | Logout() | Subscribe() | Unsubscribe():
                person = self._people[event.subscriber]
                person.then(_act(person, event))


def _act(person: Subscriber, event: Login | Logout | Subscribe | Unsubscribe) -> Act:
    match event:
        case Login():
            return person.login
        case Logout():
            return person.logout
        case Subscribe():
            return lambda: person.subscribe(event.channel, event.arguments)
        case Unsubscribe():
            return lambda: person.unsubscribe(event.channel, event.arguments)
