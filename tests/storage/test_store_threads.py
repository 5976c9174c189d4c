"""One store under several threads: nothing is lost, and news never misses a commit."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from sqlalchemy import Engine, create_engine, text, update
from sqlalchemy.exc import DBAPIError

from tocsin.storage.store import schema
from tocsin.storage.store.runs import Committed, Run
from tocsin.storage.store.store import Store

from .conftest import DatabaseServer, until


def test_a_broker_that_only_asks_for_news_knows_every_head_in_the_end(city: Store) -> None:
    made = [
        city.subscriptions.subscribe("alice", "by_type", {"type": str(n)}, "north")[0]
        for n in range(4)
    ]
    backends = [one.backend.id for one in made]
    done = Event()

    def follow() -> dict[int, int]:
        since, heads = 0, dict.fromkeys(backends, 0)
        last_round = False
        while True:
            last_round = done.is_set()
            since, news, _ = city.subscriptions.news("north", since)
            for one in news:
                assert one.head >= heads[one.backend]
                heads[one.backend] = one.head
            if last_round:
                return heads

    def commit(worker: int) -> None:
        for number in range(25):
            rows = [(backends[worker], b"{}"), (backends[(worker + 1) % 4], b"{}")]
            run = Run("by_type", f"{worker}-{number}", 1.0, 2.0)
            assert city.runs.commit_run(run, rows) is not None

    with ThreadPoolExecutor(5) as pool:
        follower = pool.submit(follow)
        try:
            for future in [pool.submit(commit, worker) for worker in range(4)]:
                future.result()
        finally:
            done.set()
        assert follower.result() == dict.fromkeys(backends, 50)


def test_one_run_committed_by_many_threads_is_stored_once(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", {"type": "flood"}, "north")
    rows = [(made.backend.id, b"{}")] * 3

    def commit(_: int) -> Committed | None:
        return city.runs.commit_run(Run("by_type", "batch-1", 1.0, 2.0), rows)

    with ThreadPoolExecutor(8) as pool:
        stored = [one for one in pool.map(commit, range(16)) if one is not None]
    assert len(stored) == 1
    assert len(city.results.read(made.backend.id, 0, 99, 99).results) == 3


def test_equal_subscriptions_made_at_once_are_merged(city: Store) -> None:
    def subscribe(number: int) -> int:
        name = f"user-{number % 5}"
        return city.subscriptions.subscribe(name, "by_type", {"type": "x"}, "north")[0].backend.id

    with ThreadPoolExecutor(8) as pool:
        backends = set(pool.map(subscribe, range(40)))
    assert len(backends) == 1
    assert len(city.subscriptions.all_()) == 5


def test_a_reader_sees_floor_and_results_of_one_moment_while_results_expire(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", {"type": "flood"}, "north")
    backend = made.backend.id
    done = Event()

    def write() -> None:
        try:
            for number in range(40):
                at = float(number)
                city.runs.commit_run(Run("by_type", f"b{number}", at, at), [(backend, b"{}")] * 5)
                city.results.expire(before=at - 2)
        finally:
            done.set()

    with ThreadPoolExecutor(2) as pool:
        writer = pool.submit(write)
        while not done.is_set():
            found = city.results.read(backend, 0, 10**6, 10**6)
            positions = [result.position for result in found.results]
            assert positions == list(range(found.floor + 1, found.head + 1))
        writer.result()


def test_a_write_that_another_program_locks_out_is_done_in_the_end(server: DatabaseServer) -> None:
    """The two wait for each other in a ring; the database takes one of them back."""
    url = server.fresh()
    engine = create_engine(url)
    with Store.open(url, busy_timeout_s=60.0) as store, engine.connect() as other:
        store.catalog.put_broker("north", "http://north")
        other.execute(update(schema.brokers).values(url="http://theirs"))
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(store.catalog.put_broker, "north", "http://ours")
            until(lambda: is_blocked(engine))
            fence = schema.meta.c.name == "writer"
            with contextlib.suppress(DBAPIError):  # whom it takes back is its own choice
                other.execute(update(schema.meta).where(fence).values(value=schema.meta.c.value))
            other.rollback()
            assert writing.result().url == "http://ours"
        assert store.catalog.broker("north").url == "http://ours"
    engine.dispose()


def is_blocked(engine: Engine) -> bool:
    """Whether a session of ours waits for a lock."""
    asked = {
        "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted",
        "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE state = 'Updating'",
    }[engine.dialect.name]
    with engine.connect() as connection:
        return bool(connection.execute(text(asked)).scalar())
