"""Two transactions write at once, one within the other at each of its statements, on real servers.

Beside the store's own writer matches are stored in a session of their own. Every transaction that
touches subscriptions or results is stopped before each of its statements in turn, and the other one
runs there, as far as locks let it. Whoever polls in between must end with everything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Table, create_engine, event, select, update

from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import TocsinError
from tocsin.storage.store import matches, schema
from tocsin.storage.store.deliveries import Deliverable
from tocsin.storage.store.dialect import Dialect, Kind
from tocsin.storage.store.dialect.postgresql import Postgresql
from tocsin.storage.store.matches import Match
from tocsin.storage.store.runs import Committed, Run
from tocsin.storage.store.store import Store
from tocsin.storage.store.write import SharedWrite, Write

from .conftest import Clock, DatabaseServer, furnish

OLD, YOUNG = 1_000_000.0, 2_000_000.0
BLOCKED_S = 0.1  # who has not gone on by then waits for a lock
ENDS_S = 30.0
STATEMENTS_AT_MOST = 60

_results = schema.results


class Stops:
    """Holds one thread before the n-th of its statements until it is let go."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.stopped, self.over = threading.Event(), threading.Event()
        self.go_on = threading.Event()

    def __call__(self, *_: Any) -> None:
        if self._left == 0:
            self._left = -1
            self.stopped.set()
            assert self.go_on.wait(ENDS_S)
        elif self._left > 0:
            self._left -= 1


class Task:
    """A thread whose failure is the test's."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def ends_within(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def end(self) -> None:
        assert self.ends_within(ENDS_S), "it waits for ever"
        if self._error is not None:
            raise self._error


class Town:
    """Subscriptions with old results, two writers, and readers that only poll."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.taken_back: list[str] = []  # transactions that the server ended for others
        self._stops: dict[int, Callable[[], None]] = {}  # by thread
        self._watch_troubles()
        self._watch_statements()
        clock.now = OLD
        subscribe = store.subscriptions.subscribe
        wished = [("alerts", "flood"), ("alerts", "fire"), ("by_type", "flood"), ("by_type", "x")]
        made = [subscribe("ann", channel, {"type": of}, "north")[0] for channel, of in wished]
        self.frontends = [frontend.id for frontend in made]
        self.backends = [frontend.backend.id for frontend in made]
        for channel, own in (("alerts", self.backends[:2]), ("by_type", self.backends[2:])):
            rows = [(backend, b"{}") for backend in own for _ in range(2)]
            store.runs.commit_run(Run(channel, "old", OLD, OLD), rows)
        clock.now = YOUNG
        self._place = store.matches.begin("matches")[0]
        self._since, self._heads = 0, dict[int, int]()
        self._after, self._delivered = {"alerts": 0, "by_type": 0}, list[Deliverable]()
        self.poll()

    def stopping(self, work: Callable[[], object], at: Callable[[], None]) -> Callable[[], object]:
        """The work, with `at` called before each of its statements, and before it commits."""

        def do() -> object:
            self._stops[threading.get_ident()] = at
            return work()

        return do

    def _watch_statements(self) -> None:
        def before(*_: Any) -> None:
            self._stops.get(threading.get_ident(), lambda: None)()

        database = self.store._database
        for engine in (database.engine, database._sharing()):
            event.listen(engine, "before_cursor_execute", before)
            event.listen(engine, "commit", before)
        update_numbered = database.dialect.update_numbered

        def numbered(*given: Any) -> int:  # goes past SQLAlchemy
            before()
            return update_numbered(*given)

        database.dialect.update_numbered = numbered  # type: ignore[method-assign, assignment]

    def _watch_troubles(self) -> None:
        dialect = self.store._database._dialect
        trouble = dialect.trouble

        def watched(error: Exception) -> Any:
            seen = trouble(error)
            if seen.kind is Kind.AGAIN:
                self.taken_back.append(seen.reason)
            return seen

        dialect.trouble = watched  # type: ignore[method-assign]

    def store_beside(self) -> None:
        """Not in the order in which they may be locked."""
        channels = ("alerts", "alerts", "by_type", "by_type")
        found = [
            Match(channel, backend, 7, b"{}")
            for channel, backend in zip(channels, self.backends, strict=True)
        ]
        up_to = self._place.up_to + 1
        _, self._place = self.store.matches.commit(self._place, found[::-1], up_to)

    def poll(self) -> None:
        """As a broker asks what is new, and a delivery what to deliver."""
        self._since, heads, _ = self.store.subscriptions.news("north", self._since)
        self._heads |= {head.backend: head.head for head in heads}
        for channel, after in self._after.items():
            batch = self.store.deliveries.read(channel, after, 1000)
            self._after[channel] = batch.upto
            self._delivered += batch.results

    def check(self) -> None:
        """Nothing is missing, and pollers have seen all that is there."""
        self.poll()
        for backend in self.store.subscriptions.all_():
            number, head, floor = backend.backend.id, backend.backend.head, backend.backend.floor
            kept = self.store.results.read(number, 0, 10**6, 10**6).results
            assert [result.position for result in kept] == list(range(floor + 1, head + 1))
            assert self._heads.get(number, 0) == head, "a poller missed a head"
        assert self._stored() <= {(at.backend, at.position) for at in self._delivered}, "missed"
        assert self.taken_back == [], "somebody waited in a ring"

    def _stored(self) -> set[tuple[int, int]]:
        return self.store._database.read(
            lambda connection: {
                (backend, position)
                for backend, position in connection.execute(
                    select(_results.c.backend, _results.c.position)
                )
            }
        )

    def young(self) -> list[int]:
        """How many results of now are there, by backend subscription."""
        query = select(_results.c.backend).where(_results.c.created_at == YOUNG)
        found = self.store._database.read(lambda connection: connection.scalars(query).all())
        return [found.count(backend) for backend in self.backends]


Action = Callable[[Town], object]


def commit_run(town: Town) -> None:
    rows = [(backend, b"{}") for backend in (town.backends[1], town.backends[0])]
    town.store.runs.commit_run(Run("alerts", "new", YOUNG, YOUNG), rows)


def store_newcomers_matches(town: Town) -> None:
    first, second, third, _ = town.backends
    found = [("by_type", third), ("alerts", second), ("alerts", first)]
    town.store.matches.store([Match(of, to, 5, b"{}") for of, to in found])


def tell_gaps(town: Town) -> None:
    town.store.gaps.records_lost("reports", 3, 9, "the disk")


def expire(town: Town) -> None:
    town.store.results.expire(before=YOUNG)


def end_one(town: Town) -> None:
    town.store.subscriptions.unsubscribe(town.frontends[1])


def end_many(town: Town) -> None:
    ending = town.store.subscriptions.all_()[:3]
    town.store._database.write(lambda write: town.store.subscriptions.end(write, ending[::-1]))


def set_aside(town: Town) -> None:
    first, second, *_ = town.backends
    town.store.subscriptions.set_aside("alerts", {second: "no", first: "no"})


def subscribe_to_what_is_there(town: Town) -> None:
    town.store.subscriptions.subscribe("bob", "alerts", {"type": "flood"}, "south")


def subscribe_to_something_new(town: Town) -> None:
    town.store.subscriptions.subscribe("bob", "alerts", {"type": "storm"}, "north")


def move(town: Town) -> None:
    town.store.subscriptions.move(town.frontends[0], "south")
    town.store.subscriptions.move(town.frontends[0], "north")


def attach(town: Town) -> None:
    town.store.subscriptions.attach("ann", "south")
    town.store.subscriptions.attach("ann", "north")


def acknowledge(town: Town) -> None:
    backends = {at.id: at.backend for at in town.store.subscriptions.all_()}
    wanted = [(frontend, backends[frontend].epoch, 2) for frontend in town.frontends]
    town.store.subscriptions.put_markers(wanted)


ACTIONS = (
    commit_run,
    store_newcomers_matches,
    tell_gaps,
    expire,
    end_one,
    end_many,
    set_aside,
    subscribe_to_what_is_there,
    subscribe_to_something_new,
    move,
    attach,
    acknowledge,
)


class Towns:
    """New ones in a database."""

    def __init__(self, server: DatabaseServer, clock: Clock) -> None:
        self._url, self._clock = server.fresh(), clock
        Store.open(self._url).close()
        self._engine = create_engine(self._url)

    @contextmanager
    def new(self) -> Iterator[Town]:
        with self._engine.begin() as connection:
            for table in reversed(schema.metadata.sorted_tables):
                if table is schema.counters:
                    connection.execute(update(table).values(value=0))
                elif table is not schema.meta:
                    connection.execute(table.delete())
        with Store.open(self._url, clock=self._clock) as store:
            furnish(store)
            yield Town(store, self._clock)


@pytest.fixture(name="towns")
def _towns(server: DatabaseServer, clock: Clock) -> Towns:
    return Towns(server, clock)


def _interleaved(
    town: Town, first: Callable[[], object], second: Callable[[], object], number: int
) -> bool:
    """The first stops before its n-th statement, and the second goes on as far as it can;
    False: the first has no so many."""
    stops = Stops(number)
    stopped = Task(town.stopping(first, stops))
    while not stops.stopped.wait(0.002):
        if stopped.ends_within(0):
            stopped.end()
            return False
    town.poll()
    other = Task(second)
    other.ends_within(BLOCKED_S)
    town.poll()
    stops.go_on.set()
    stopped.end()
    town.poll()
    other.end()
    return True


@pytest.mark.timeout(600)
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_matches_may_be_stored_at_each_statement_of(towns: Towns, action: Action) -> None:
    for number in range(STATEMENTS_AT_MOST):
        with towns.new() as town:
            goes_on = _interleaved(town, partial(action, town), town.store_beside, number)
            town.check()
            if not goes_on:
                assert number > 1
                return
    pytest.fail("it has too many statements")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_each_statement_of_who_stores_matches_may_be_followed_by(
    towns: Towns, action: Action
) -> None:
    for number in range(STATEMENTS_AT_MOST):
        with towns.new() as town:
            goes_on = _interleaved(town, town.store_beside, partial(action, town), number)
            town.check()
            if not goes_on:
                assert number > 8
                return
    pytest.fail("it has too many statements")


def test_a_result_that_is_stored_while_older_ones_expire_does_not_expire(towns: Towns) -> None:
    """The new floor of a subscription with nothing young is its head. Who waits for another's
    commit sees the head that it raised, and not yet the results below."""
    for number in range(STATEMENTS_AT_MOST):
        with towns.new() as town:
            goes_on = _interleaved(town, town.store_beside, partial(expire, town), number)
            assert town.young() == [1, 1, 1, 1]
            if not goes_on:
                assert number > 8
                return
    pytest.fail("it has too many statements")


def _expire_without_a_lock(broken: pytest.MonkeyPatch) -> Action:
    broken.setattr(Write, "lock_backends", lambda *_: None)
    return expire


def _heads_without_a_lock(broken: pytest.MonkeyPatch) -> Action:
    broken.setattr(SharedWrite, "locking", " ORDER BY id")
    return commit_run


def _sequence_before_rows(broken: pytest.MonkeyPatch) -> Action:
    store = matches._store

    def early(write: SharedWrite, found: list[Match], at: float) -> list[Committed]:
        write._dialect.advance(write.connection, schema.counters, "sequence", 1)
        return store(write, found, at)

    broken.setattr(matches, "_store", early)
    return commit_run


def _sequence_in_a_transaction_of_its_own(broken: pytest.MonkeyPatch) -> Action:
    def advance(_: Dialect, connection: Connection, counters: Table, name: str, by: int) -> int:
        with connection.engine.begin() as own:
            chosen = update(counters).where(counters.c.name == name)
            grown = chosen.values(value=counters.c.value + by).returning(counters.c.value)
            return int(own.execute(grown).scalar_one())

    broken.setattr(Postgresql, "advance", advance)
    broken.setattr(Postgresql, "update_numbered", Dialect.update_numbered)
    return commit_run


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "break_it",
    [
        _expire_without_a_lock,
        _heads_without_a_lock,
        _sequence_before_rows,
        _sequence_in_a_transaction_of_its_own,
    ],
)
def test_what_these_tests_are_for_is_noticed(
    postgresql: PostgreSQL,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], Action],
) -> None:
    action = break_it(monkeypatch)
    with pytest.raises((AssertionError, TocsinError, *Postgresql.errors)):
        _try_all(Towns(postgresql, clock), action)


def _try_all(towns: Towns, action: Action) -> None:
    for number in range(STATEMENTS_AT_MOST):
        with towns.new() as town:
            goes_on = _interleaved(town, town.store_beside, partial(action, town), number)
            town.check()
            assert action is not expire or town.young() == [1, 1, 1, 1]
            if not goes_on:
                return
