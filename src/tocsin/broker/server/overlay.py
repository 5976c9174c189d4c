"""The live broker in the overlay: its lane, the links to its neighbours, and what the cluster adds.

Where publications enter, the cluster's stream of records is followed; what is to be filled is read
from the log. Neighbours' result caches are asked before the store. Decides nothing about routing.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

import structlog
from msgspec import Struct

from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import Effect, Fetch
from tocsin.broker.lane import Lane, Outward
from tocsin.broker.near import Near, found, nearest
from tocsin.broker.server.cluster_link import ClusterLink, RoutedLine
from tocsin.caching import MessageCache
from tocsin.errors import NotFound, TocsinError
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import (
    Asked,
    Fill,
    Message,
    Publication,
    Recall,
    Relink,
    ResultsFound,
    ResultsWanted,
    Router,
    Send,
)
from tocsin.overlay.routing import Effect as Told
from tocsin.policies.message import parse_message_policy
from tocsin.service.backoff import Backoff
from tocsin.settings import Settings

log = structlog.get_logger()

NEAR_S = 0.1  # how long neighbours may take to say what they have

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
Perform = Callable[[BrokerCore, Iterable[Effect]], None]


class Neighbours(Protocol):
    """The links, as `links.Links` keeps them."""

    def send(self, neighbour: str, incarnation: int, sequence: int, message: Message) -> None: ...
    def close(self, neighbour: str, incarnation: int) -> None: ...
    def set_neighbours(self, neighbours: dict[str, str]) -> None: ...


class NearCounts(Struct):
    """What neighbours' result caches gave, and what was left to the store."""

    asked: int = 0
    near: int = 0
    near_bytes: int = 0
    served: int = 0
    served_bytes: int = 0


class Recalled(Struct, frozen=True):
    """What a cache had, and how long after the request it was here."""

    recall: Recall
    took_s: float


class _Recalling:
    def __init__(self) -> None:
        self.found: list[Recalled] = []
        self._began_at = time.perf_counter()

    def answered(self, recall: Recall) -> None:
        self.found.append(Recalled(recall, time.perf_counter() - self._began_at))


class _Question:
    """Of several neighbours; done when all have answered."""

    def __init__(self, neighbours: int) -> None:
        self.answers: list[ResultsFound] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting = neighbours

    def answered(self, found: ResultsFound) -> None:
        self.answers.append(found)
        self._waiting -= 1
        if not self._waiting and not self.done.done():
            self.done.set_result(None)


class Overlay:
    counts: NearCounts
    messages: MessageCache[tuple[str, int], Publication]

    def __init__(
        self,
        settings: Settings,
        link: ClusterLink,
        spawn: Spawn,
        core: Callable[[], BrokerCore],
        perform: Perform,
    ) -> None:
        self.name = settings.broker_name
        self.policy = parse_message_policy(settings.message_policy)
        self.counts = NearCounts()
        self.entry: str | None = None
        self._slots = settings.message_slots
        self._begin()
        self._links: Neighbours | None = None
        self._cluster = link
        self._spawn = spawn
        self._core = core
        self._perform = perform
        self._entering: asyncio.Task[None] | None = None
        self._entered: set[str] = set()
        self._numbers = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._recalls: dict[int, _Recalling] = {}
        self._untold: deque[Told] = deque()
        self._doing = False

    def _begin(self) -> None:
        self.messages = MessageCache(self.policy, self._slots)
        self.router = Router(self.name, self.messages, lambda wanted: self.policy.reaches(wanted))
        self._lane = Lane(self.router)

    def begin_anew(self) -> None:
        """The cluster has another store, and another log: nothing that was routed counts any more.
        Links are made anew, so that neighbours tell again what they want."""
        if self._entering is not None:
            self._entering.cancel()
        self._entering = None  # the coordinator tells again where publications enter
        self._entered.clear()
        former, self._untold = self.router, deque()
        self._begin()
        for neighbour in former.neighbours:
            if self._links is not None:
                self._links.close(neighbour, former.incarnation(neighbour))

    def set_policy(self, text: str) -> None:
        """Switch the message cache's policy at run time; what is there stays."""
        self.policy = self.messages.policy = parse_message_policy(text)

    # The tree

    def told(self, links: Neighbours, entry: str | None, neighbours: dict[str, str]) -> None:
        """Who is beside us, and where publications enter."""
        self._links = links
        links.set_neighbours(neighbours)
        self.entry = entry
        if entry == self.name and self._entering is None:
            self._entering = self._spawn(self._enter())
        elif entry != self.name and self._entering is not None:
            self._entering.cancel()
            self._entering = None
            for dataset in self._entered:
                self._do(self.router.left(dataset))
            self._entered.clear()

    def linked(self, neighbour: str, incarnation: int) -> None:
        self._do(self.router.linked(neighbour, incarnation))

    def unlinked(self, neighbour: str, incarnation: int) -> None:
        self._do(self.router.unlinked(neighbour, incarnation))

    def heard(self, neighbour: str, incarnation: int, sequence: int, message: Message) -> None:
        self._do(self.router.heard(neighbour, incarnation, sequence, message))

    def follow(self) -> None:
        """The core has done something: perhaps it serves other filters now."""
        told = self._lane.follow(self._core())
        if told:
            self._do(told)

    # Publications

    async def _enter(self) -> None:
        backoff = Backoff(0.1, 2.0)
        while True:
            try:
                async for line in self._cluster.routed():
                    backoff.reset()
                    self._take(line)
            except TocsinError as error:
                log.info("records cannot enter here now; trying on", reason=str(error))
            await asyncio.sleep(backoff.next_s())

    def _take(self, line: RoutedLine) -> None:
        dataset = line.dataset
        if line.position is not None:
            record = Publication(dataset, line.position, line.record, line.at)
            self._do(self.router.published(record, line.after))
        elif line.entered is not None:
            self._entered.add(dataset)
            self._do(self.router.entered(dataset, line.entered))
        elif line.passed is not None:
            self._do(self.router.passed(dataset, line.passed))
        elif line.left:
            self._entered.discard(dataset)
            self._do(self.router.left(dataset))

    async def _fill(self, fill: Fill) -> None:
        backoff = Backoff(0.05, 2.0)
        found: list[Publication] = []
        after, floor = fill.after, -1
        while after < fill.upto:
            try:
                part = await self._cluster.records(fill.dataset, after, fill.upto)
            except NotFound:  # the dataset was dropped: nobody misses anything
                break
            except TocsinError as error:
                log.info("records cannot be read now; trying on", reason=str(error))
                await asyncio.sleep(backoff.next_s())
                continue
            floor = max(floor, part.floor)
            found += [
                Publication(fill.dataset, one.position, one.record, one.at) for one in part.records
            ]
            after = max(part.upto, after + 1)
        self._do(self.router.filled(fill.dataset, fill.fill, found, floor))

    # Old messages

    async def recall(self, wanted: Filter, wait_s: float) -> list[Recalled]:
        """What matches in the message caches of the overlay, as far as they answer in time."""
        number = next(self._numbers)
        recalling = self._recalls[number] = _Recalling()
        self._do(self.router.requested(number, wanted))
        try:
            await asyncio.sleep(wait_s)
            return recalling.found
        finally:
            del self._recalls[number]
            self._do(self.router.request_ended(number))

    # Results of neighbours

    @property
    def has_neighbours(self) -> bool:
        return bool(self.router.neighbours)

    async def near(self, fetch: Fetch, epoch: str) -> Near | None:
        """The newest part of a range, from a neighbour's result cache; None if nobody has any."""
        neighbours, number = self.router.neighbours, next(self._numbers)
        question = self._questions[number] = _Question(len(neighbours))
        self.counts.asked += 1
        wanted = ResultsWanted(number, fetch.backend, epoch, fetch.after, fetch.upto)
        for neighbour in neighbours:
            self._do(self.router.ask(neighbour, wanted))
        try:
            await asyncio.wait([question.done], timeout=NEAR_S)
        finally:
            del self._questions[number]
        near = nearest(fetch, epoch, question.answers)
        if near is not None:
            self.counts.near += len(near.results)
            self.counts.near_bytes += sum(one.size_bytes for one in near.results)
        return near

    def _asked(self, told: Asked) -> None:
        question = told.question
        if isinstance(question, ResultsFound):
            waiting = self._questions.get(question.question)
            if waiting is not None:
                waiting.answered(question)
            return
        there = found(self._core(), question)
        self.counts.served += len(there.results)
        self.counts.served_bytes += sum(len(bytes(value)) for _, _, value in there.results)
        self._do(self.router.ask(told.neighbour, there))

    # Effects

    def _do(self, told: Iterable[Told]) -> None:
        """In the order in which the router said so: what it says meanwhile comes after."""
        self._untold.extend(told)
        if self._doing:
            return
        self._doing = True
        try:
            while self._untold:
                core, now = self._core(), time.monotonic()
                told, self._untold = self._untold, deque()
                effects, outward = self._lane.apply(core, told, now)
                for one in outward:
                    self._outward(one)
                if effects:
                    self._perform(core, effects)
        finally:
            self._doing = False

    def _outward(self, one: Outward) -> None:
        match one:
            case Send(neighbour, incarnation, sequence, message):
                if self._links is not None:
                    self._links.send(neighbour, incarnation, sequence, message)
            case Relink(neighbour, incarnation):
                if self._links is not None:
                    self._links.close(neighbour, incarnation)
            case Fill():
                self._spawn(self._fill(one))
            case Recall():
                if one.request in self._recalls:
                    self._recalls[one.request].answered(one)
            case Asked():
                self._asked(one)
