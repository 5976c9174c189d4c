"""Random histories of subscribing, running, acknowledging and expiring, against plain dicts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tocsin.model import Head
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

from .conftest import Clock, Databases, SqliteFiles, furnish

SUBSCRIBERS = st.sampled_from(["alice", "bob"])
BROKERS = st.sampled_from(["north", "south"])
TYPES = st.sampled_from(["flood", "fire"])


@dataclass
class Backend:
    id: int
    epoch: str
    head: int = 0
    floor: int = 0
    results: dict[int, tuple[float, bytes]] = field(default_factory=dict)


@dataclass
class Frontend:
    subscriber: str
    type: str
    broker: str
    marker: int


@dataclass
class BrokerMemory:
    """What a broker knows that hears of its own subscriptions at once and else asks for news."""

    since: int = 0
    heads: dict[int, int] = field(default_factory=dict)
    subscriptions: set[int] = field(default_factory=set)


class StoreMachine(RuleBasedStateMachine):
    databases: Databases

    def __init__(self) -> None:
        super().__init__()
        self.url = self.databases.empty()
        self.clock = Clock()
        self.store = Store.open(self.url, clock=self.clock)
        furnish(self.store)
        self.backends: dict[str, Backend] = {}
        self.frontends: dict[int, Frontend] = {}
        self.used_ids: set[int] = set()
        self.brokers = {"north": BrokerMemory(), "south": BrokerMemory()}
        self.runs = 0
        self.version = 0
        self.copy: dict[int, dict[str, str]] = {}

    def teardown(self) -> None:
        self.store.close()

    @initialize()
    def begin_with_someone(self) -> None:
        """Else most histories would be about nobody."""
        self.subscribe("alice", "flood", "north")

    @rule(subscriber=SUBSCRIBERS, type_=TYPES, broker=BROKERS)
    def subscribe(self, subscriber: str, type_: str, broker: str) -> None:
        made, created = self.store.subscriptions.subscribe(
            subscriber, "by_type", {"type": type_}, broker
        )
        assert created == (type_ not in self.backends)
        if created:
            assert made.backend.id not in self.used_ids
            self.used_ids.add(made.backend.id)
            self.backends[type_] = Backend(made.backend.id, made.backend.epoch)
        backend = self.backends[type_]
        frontend = self.frontends.setdefault(
            made.id, Frontend(subscriber, type_, broker, backend.head)
        )
        assert (frontend.subscriber, frontend.type) == (subscriber, type_)
        assert made.broker == frontend.broker
        self.brokers[frontend.broker].subscriptions.add(made.id)
        self.brokers[frontend.broker].heads[backend.id] = made.backend.head

    @precondition(lambda self: self.frontends)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.frontends)))
        gone = self.frontends.pop(number)
        self.store.subscriptions.unsubscribe(number, gone.subscriber)
        if all(one.type != gone.type for one in self.frontends.values()):
            del self.backends[gone.type]

    @rule(subscriber=SUBSCRIBERS, broker=BROKERS)
    def attach(self, subscriber: str, broker: str) -> None:
        for one in self.store.subscriptions.attach(subscriber, broker):
            self.frontends[one.id].broker = broker
            self.brokers[broker].subscriptions.add(one.id)

    @rule(
        rows=st.lists(st.tuples(TYPES, st.binary(max_size=4)), min_size=1, max_size=6),
        repeat=st.booleans(),
    )
    def run(self, rows: list[tuple[str, bytes]], repeat: bool) -> None:
        self.clock.now += 1
        fresh = not (repeat and self.runs)
        self.runs += fresh
        ids = {type_: one.id for type_, one in self.backends.items()}
        run = Run("by_type", f"batch-{self.runs}", self.clock.now, self.clock.now)
        done = self.store.runs.commit_run(
            run, [(ids.get(type_, 10**6), payload) for type_, payload in rows]
        )
        assert (done is not None) == fresh
        if done is None:
            return
        touched = set()
        for type_, payload in rows:
            if type_ in self.backends:
                backend = self.backends[type_]
                backend.head += 1
                backend.results[backend.head] = (self.clock.now, payload)
                touched.add(type_)
        expected = [self.backends[one] for one in touched]
        assert sorted(done.heads, key=lambda one: one.backend) == sorted(
            (Head(one.id, one.epoch, one.head) for one in expected), key=lambda one: one.backend
        )

    @precondition(lambda self: self.frontends)
    @rule(data=st.data(), position=st.integers(-1, 40), right=st.booleans())
    def acknowledge(self, data: st.DataObject, position: int, right: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.frontends)))
        frontend = self.frontends[number]
        backend = self.backends[frontend.type]
        epoch = backend.epoch if right else "another"
        unknown = self.store.subscriptions.put_markers([(number, epoch, position)])
        assert unknown == ([] if right else [number])
        if right:
            frontend.marker = max(frontend.marker, min(position, backend.head))

    @rule(age_s=st.integers(0, 3))
    def expire(self, age_s: int) -> None:
        before = self.clock.now - age_s
        count = 0
        for backend in self.backends.values():
            for position in sorted(backend.results):
                if backend.results[position][0] >= before:
                    break
                del backend.results[position]
                backend.floor = position
                count += 1
        assert self.store.results.expire(before) == count

    @rule(broker=BROKERS)
    def hear_news(self, broker: str) -> None:
        memory = self.brokers[broker]
        memory.since, heads, detached = self.store.subscriptions.news(broker, memory.since)
        memory.heads.update((one.backend, one.head) for one in heads)
        for one in detached:
            memory.subscriptions.discard(one.subscription)
            there = self.frontends.get(one.subscription)
            assert one.to == (there.broker if there else None)
        here = {number for number, one in self.frontends.items() if one.broker == broker}
        assert memory.subscriptions == here
        for number in here:
            backend = self.backends[self.frontends[number].type]
            assert memory.heads[backend.id] == backend.head

    @rule()
    def follow_parameters(self) -> None:
        changes = self.store.subscriptions.parameter_changes("by_type", self.version)
        if changes is None:
            self.version = self.store.subscriptions.parameter_version("by_type")
            self.copy = dict(self.store.subscriptions.parameter_sets("by_type"))
        else:
            self.version, added, removed = changes
            self.copy.update(added)
            for gone in removed:
                del self.copy[gone]
        assert self.copy == {one.id: {"type": type_} for type_, one in self.backends.items()}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.url, clock=self.clock)

    @invariant()
    def subscriptions_are_as_in_the_model(self) -> None:
        found = self.store.subscriptions.all_()
        assert [
            (one.id, one.subscriber, one.backend.arguments["type"], one.broker, one.marker)
            for one in found
        ] == [
            (number, one.subscriber, one.type, one.broker, one.marker)
            for number, one in sorted(self.frontends.items())
        ]
        for one in found:
            backend = self.backends[one.backend.arguments["type"]]
            told = (one.backend.id, one.backend.epoch, one.backend.head, one.backend.floor)
            assert told == (backend.id, backend.epoch, backend.head, backend.floor)

    @invariant()
    def results_are_dense_between_floor_and_head(self) -> None:
        for backend in self.backends.values():
            found = self.store.results.read(backend.id, 0, 10**6, 10**6)
            assert [result.position for result in found.results] == list(
                range(backend.floor + 1, backend.head + 1)
            )
            assert {
                result.position: (result.created_at, result.payload) for result in found.results
            } == backend.results


def test_the_store_behaves_as_the_model(databases: Databases) -> None:
    machine = type("StoreMachineHere", (StoreMachine,), {"databases": databases})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20 if isinstance(databases, SqliteFiles) else 6,  # they take longer
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
