"""Writers of matches are killed, frozen and left without a leader: every match is stored once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from sqlalchemy import create_engine, text

from tocsin.cluster.match_topic import begin
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.model import Channel, Dataset
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.store import Store
from tocsin.system.ports import free_port

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

SECRET = "a secret that nobody would guess"
BACKENDS = 5


class Writer:
    def __init__(self, port: int, environment: dict[str, str], log: Path) -> None:
        self._port, self._environment, self._log = port, environment, log
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tocsin", "writer", "--port", str(self._port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()

    def health(self) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self._port}/healthz", timeout=2.0)

    def end(self) -> int:
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        return self._process.wait(20)


class Town:
    """A store that somebody leads, and the matches that Spark would write."""

    def __init__(self, log: str, url: str, directory: Path) -> None:
        self.url, self.address = url, KafkaAddress.parse(log)
        self._directory = directory
        self._environment = os.environ | {
            "TOCSIN_LOG": log,
            "TOCSIN_STORE": url,
            "TOCSIN_SECRET": SECRET,
            "TOCSIN_DATA": str(directory),
            "TOCSIN_STORE_LEASE_S": "2",
            "TOCSIN_CLUSTER_URL": f"http://127.0.0.1:{free_port('127.0.0.1')}",
        }
        self.writers: list[Writer] = []
        self.store = self.lead()
        self.store.catalog.create_dataset(Dataset("reports", ()))
        self.store.catalog.create_channel(
            Channel("c", "continuous", (), "", ("reports",), ("reports",))
        )
        self.store.catalog.put_broker("edge", "http://edge")
        subscribe = self.store.subscriptions.subscribe
        made = [subscribe("ann", "c", {"n": n}, "edge")[0] for n in range(BACKENDS)]
        self.backends = [frontend.backend.id for frontend in made]
        self._producer = Producer(self.address.client())
        self.written = 0
        self._stop = threading.Event()
        self._writing: threading.Thread | None = None

    def lead(self) -> Store:
        store = Store.open(self.url, lease_s=2.0)
        begin(self.address, store.matches)
        return store

    def writer(self) -> Writer:
        name = f"writer-{len(self.writers)}.log"
        port = free_port("127.0.0.1")
        self.writers.append(Writer(port, self._environment, self._directory / name))
        return self.writers[-1]

    def write(self, count: int, again: int = 0) -> None:
        """So many new matches, behind so many of the former ones."""
        for record in range(max(0, self.written - again), self.written + count):
            backend = self.backends[record % BACKENDS]
            value = b'{"c":"c","b":%d,"p":%d,"v":{"n":%d}}' % (backend, record, record)
            self._producer.produce(self.address.matches_topic, value, partition=0)
        self.written += count
        assert self._producer.flush(30) == 0

    def write_on(self) -> None:
        """Until `stop_writing`."""

        def run() -> None:
            while not self._stop.wait(0.01):
                self.write(20, again=5)

        self._writing = threading.Thread(target=run)
        self._writing.start()

    def stop_writing(self) -> None:
        self._stop.set()
        if self._writing is not None:
            self._writing.join()
        self._stop.clear()

    def count(self) -> int:
        return sum(backend.backend.head for backend in self.store.subscriptions.all_())

    def check(self) -> None:
        """Each match is there once, in the order in which it was written."""
        for place, backend in enumerate(self.backends):
            results = self.store.results.read(backend, 0, 10**9, 10**9).results
            wanted = [b'{"n":%d}' % n for n in range(place, self.written, BACKENDS)]
            assert [result.payload for result in results] == wanted
            assert [result.position for result in results] == list(range(1, len(wanted) + 1))

    def close(self) -> None:
        self.stop_writing()
        for writer in self.writers:
            writer.send(signal.SIGKILL)
        self.store.close()


@pytest.fixture
def town(kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path) -> Iterator[Town]:
    town = Town(f"{kafka.url}/{uuid.uuid4().hex}", postgresql.fresh(), tmp_path)
    yield town
    town.close()


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    ends_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends_at, "it never came to be"
        time.sleep(0.02)


def answers(writer: Writer) -> bool:
    try:
        return writer.health().status_code == 200
    except httpx.HTTPError:
        return False


def test_a_writer_that_is_killed_again_and_again_loses_and_doubles_nothing(town: Town) -> None:
    writer = town.writer()
    town.write_on()
    for _ in range(3):
        before = town.count()
        until(lambda before=before: town.count() > before + 200)  # type: ignore[misc]
        writer.send(signal.SIGKILL)
        writer.start()
    until(lambda: answers(writer))
    town.stop_writing()
    until(lambda: town.count() == town.written)
    town.check()
    assert writer.end() == 0


def test_a_frozen_writer_is_replaced_and_does_no_harm_when_it_wakes(town: Town) -> None:
    frozen = town.writer()
    town.write_on()
    until(lambda: town.count() > 200)
    frozen.send(signal.SIGSTOP)
    stood = town.count()
    town.writer()
    until(lambda: town.count() > stood + 500)
    frozen.send(signal.SIGCONT)
    before = town.count()
    until(lambda: town.count() > before + 500)
    town.stop_writing()
    until(lambda: town.count() == town.written)
    town.check()


def test_results_stored_while_nobody_leads_are_news_of_the_next_leader(town: Town) -> None:
    town.writer()
    town.write(50)
    until(lambda: town.count() == 50)
    since, _, _ = town.store.subscriptions.news("edge", 0)
    town.store.close()
    town.write(100)
    engine = create_engine(town.url)
    topic = {"topic": town.address.matches_topic}

    def taken() -> int:
        query = text("SELECT up_to FROM match_partitions WHERE topic = :topic")
        with engine.connect() as connection:
            return int(connection.execute(query, topic).scalar_one())

    until(lambda: taken() == 150)
    engine.dispose()
    town.store = town.lead()
    _, heads, _ = town.store.subscriptions.news("edge", since)
    assert {head.backend: head.head for head in heads} == dict.fromkeys(town.backends, 30)
    town.write(10)
    until(lambda: town.count() == 160)  # under the new generation, too
    town.check()


def test_a_writer_waits_for_a_store_of_its_own_version(town: Town) -> None:
    engine = create_engine(town.url)
    version = text("UPDATE meta SET value = :version WHERE name = 'schema_version'")

    def put(number: str) -> None:
        with engine.begin() as connection:
            connection.execute(version, {"version": number})

    with engine.connect() as connection:
        query = text("SELECT value FROM meta WHERE name = 'schema_version'")
        ours = str(connection.execute(query).scalar_one())
    put("7")
    writer = town.writer()
    town.write(5)
    until(lambda: "schema version 7" in _said(writer))
    assert town.count() == 0
    put(ours)
    engine.dispose()
    until(lambda: town.count() == 5)
    until(lambda: answers(writer))
    town.check()


def _said(writer: Writer) -> str:
    try:
        return writer.health().text
    except httpx.HTTPError:
        return ""
