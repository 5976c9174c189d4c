"""A simulated broker's place in the overlay: as the live one's, it drives a real lane, follows the
cluster's stream of records where these enter, reads the log, and asks neighbours' caches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import Effect, Fetch
from tocsin.broker.events import RangeAnswer
from tocsin.broker.lane import Lane, Outward
from tocsin.broker.near import Near, found, nearest
from tocsin.caching import MessageCache
from tocsin.overlay.routing import (
    Asked,
    Fill,
    Publication,
    Relink,
    ResultsFound,
    ResultsWanted,
    Router,
    Send,
)
from tocsin.overlay.routing import Effect as Told
from tocsin.policies.message import message_policy_names, parse_message_policy
from tocsin.simulation.checkers import promise
from tocsin.simulation.mesh import a_router

if TYPE_CHECKING:
    from tocsin.simulation.broker import SimulatedBroker
    from tocsin.simulation.network import NetworkWorld

RECORDS_PER_CALL = 4
Answered = Callable[[RangeAnswer | None], list[Effect]]


class Stream:
    """What the cluster tells one reader of its records: in order, until it breaks."""

    def __init__(self, lane: SimulatedLane) -> None:
        self.lane = lane
        self.broken = False
        self._latest = 0.0

    def say(self, told: Callable[[Router], list[Told]]) -> None:
        world = self.lane.world
        self._latest = max(self._latest, world.now + world.delay_s())

        def arrive() -> None:
            if not self.broken and self.lane.lives and self.lane.stream is self:
                self.lane.do(told(self.lane.router))

        world.agenda.at(self._latest, arrive)


class _Question:
    def __init__(self, neighbours: int, decide: Callable[[list[ResultsFound]], None]) -> None:
        self.answers: list[ResultsFound] = []
        self.waiting = neighbours
        self.decide = decide


class SimulatedLane:
    def __init__(self, world: NetworkWorld, broker: SimulatedBroker) -> None:
        self.world = world
        policy = parse_message_policy(world.random.choice(message_policy_names()))
        self._slots = world.random.choice([0, 2, 8])
        held = world.random.choice([1, 1000])
        self.router = a_router(broker.name, policy, self._slots, held)
        self.stream: Stream | None = None
        self._broker = broker
        self._lane = Lane(self.router)
        self._is_entry = False
        self._questions: dict[int, _Question] = {}
        self._asked = 0
        self._untold: deque[Told] = deque()
        self._doing = False

    @property
    def lives(self) -> bool:
        return self._broker.lane is self

    # -- the tree ---------------------------------------------------------------------------------

    def beat(self) -> None:
        """A heartbeat; its answer tells the tree."""
        world = self.world
        lost = world.faulty and world.random.random() < 0.1

        def answered(entry: str, neighbours: list[str]) -> None:
            if self.lives and not lost:
                world.mesh.learn(self._broker.name, neighbours)
                self._told_entry(entry)

        def arrive() -> None:
            if self.lives:
                told = world.coordinator.heartbeat(self._broker.name, world.now)
                world.later(world.delay_s(), lambda: answered(*told))
                world.later(world.scale, self.beat)

        world.later(world.delay_s(), arrive)

    def _told_entry(self, entry: str) -> None:
        before, self._is_entry = self._is_entry, entry == self._broker.name
        if self._is_entry and not before:
            self._enter()
        elif before and not self._is_entry:
            self.stream = None
            self.do(self.router.left(self.world.dataset))

    def _enter(self) -> None:
        """Follow the stream, again and again while this is where records enter."""
        if self.lives and self._is_entry and self.stream is None:
            stream = self.stream = Stream(self)
            self.world.later(self.world.delay_s(), lambda: self.world.open(stream))

    def broke(self, stream: Stream) -> None:
        if self.stream is stream:
            self.stream = None
            self.world.later(self.world.delay_s() * 3, self._enter)

    # -- the log ----------------------------------------------------------------------------------

    def _fill(self, fill: Fill, after: int, floor: int, before: list[Publication]) -> None:
        world = self.world
        log = world.cluster.log
        promise(fill.upto <= log.head, f"{fill} is beyond the log's end, {log.head}")

        def read(told: tuple[int, int, list[Publication]]) -> list[Effect]:
            lost, reached, more = told
            some = [*before, *more]
            if reached < fill.upto:
                self._fill(fill, reached, max(floor, lost), some)
            else:
                self.do(self.router.filled(fill.dataset, fill.fill, some, max(floor, lost)))
            return []

        def again() -> None:
            world.later(0.2 * world.scale, lambda: self._fill(fill, after, floor, before))

        if self.lives:
            self._broker.call(
                lambda: (log.floor, *log.between(after, fill.upto, RECORDS_PER_CALL)), read, again
            )

    # -- neighbours' results ----------------------------------------------------------------------

    def near(
        self,
        core: BrokerCore,
        fetch: Fetch,
        read: Callable[[Fetch, Answered], None],
        answered: Answered,
    ) -> None:
        """The newest part of a range from a neighbour, what is left from the store."""
        epoch = core.attachments.backends[fetch.backend].epoch
        self._asked += 1
        number = self._asked

        def decide(answers: list[ResultsFound]) -> None:
            near = nearest(fetch, epoch, answers)
            if near is None:
                read(fetch, answered)
                return
            self._check(fetch, near)
            self.world.near += len(near.results)
            if near.after <= fetch.after:
                self._broker.do(answered(near.behind(None)))
            else:
                before = Fetch(
                    fetch.fetch, fetch.backend, fetch.after, near.after, fetch.limit, False
                )
                read(before, lambda told: answered(told and near.behind(told)))

        neighbours = self.router.neighbours
        self._questions[number] = _Question(len(neighbours), decide)
        self.world.later(0.1 * self.world.scale, lambda: self._decide(number))
        for neighbour in neighbours:
            wanted = ResultsWanted(number, fetch.backend, epoch, fetch.after, fetch.upto)
            self.do(self.router.ask(neighbour, wanted))

    def _check(self, fetch: Fetch, near: Near) -> None:
        there = self.world.cluster.results(fetch.backend, near.epoch, near.after, near.upto)
        promise(near.results == there, f"{fetch}: a neighbour has {near}, the store {there}")

    def _decide(self, number: int) -> None:
        question = self._questions.pop(number, None)
        if question is not None and self.lives:
            question.decide(question.answers)

    def _answer(self, told: Asked) -> None:
        question = told.question
        if isinstance(question, ResultsWanted):
            core = self._broker.core
            assert core is not None
            self.do(self.router.ask(told.neighbour, found(core, question)))
            return
        waiting = self._questions.get(question.question)
        if waiting is not None:
            waiting.answers.append(question)
            if len(waiting.answers) == waiting.waiting:
                self._decide(question.question)

    # -- effects ----------------------------------------------------------------------------------

    def follow(self) -> None:
        """The core has done something."""
        if self._broker.core is not None:
            self.do(self._lane.follow(self._broker.core))

    def do(self, told: Iterable[Told]) -> None:
        """In the order in which the router said so: what it says meanwhile comes after."""
        self._untold.extend(told)
        if self._doing:
            return
        self._doing = True
        while self._untold and self._broker.core is not None:
            told, self._untold = self._untold, deque()
            effects, outward = self._lane.apply(self._broker.core, told, self.world.now)
            for one in outward:
                self._outward(one)
            if effects:
                self._broker.do(effects)
        self._doing = False
        held = self.router.cache
        assert isinstance(held, MessageCache)
        promise(len(held) <= self._slots, f"{len(held)} messages in {self._slots} slots")

    def _outward(self, one: Outward) -> None:
        match one:
            case Send():
                self.world.mesh.send(self._broker.name, one)
            case Relink():
                self.world.mesh.relink(self._broker.name, one)
            case Fill():
                self.world.fills += 1
                self._fill(one, one.after, -1, [])
            case Asked():
                self._answer(one)
