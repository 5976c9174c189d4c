"""Channels of the catalog are taken up at a start; one that cannot be is told, and tried again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tocsin.model import Channel, Column, Dataset, Parameter
from tocsin.service import trouble
from tocsin.settings import Settings
from tocsin.spark import engine as module
from tocsin.spark.engine import Engine
from tocsin.storage.log import PublicationLog, open_log
from tocsin.storage.store.store import Store
from tocsin.storage.tables import open_tables

pytestmark = pytest.mark.spark

REPORTS = Dataset("reports", (Column("id", "INT"), Column("kind", "STRING")))
GOOD = "SELECT r.id FROM NEW reports r WHERE r.kind = :kind"
REFUSED = "SELECT r.id, rand() AS x FROM NEW reports r WHERE r.kind = :kind"


def channel(name: str, query: str, **more: str) -> Channel:
    parameters = (Parameter("kind", "STRING"),)
    return Channel(name, "continuous", parameters, query, ("reports",), ("reports",), **more)  # type: ignore[arg-type]


class Bench:
    def __init__(self, directory: Path) -> None:
        self.store = Store.open(f"sqlite:///{directory}/store.db")
        self.log: PublicationLog = open_log(directory / "log", segment_bytes=10_000)
        self.log.open_dataset("reports")
        self.store.catalog.create_dataset(REPORTS)
        settings = Settings(data=directory, warm_up=False)
        tables = open_tables(settings, self.store)
        given = settings, self.store, self.log, tables
        self.engine = Engine(*given, lambda *_: None, lambda *_: None)

    def results(self, backend: int) -> int:
        return len(self.store.results.read(backend, 0, 10**9, 100).results)

    def close(self) -> None:
        self.engine.stop()
        self.log.close()
        self.store.close()


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(module, "build_session", lambda _: spark.newSession())
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # it is everybody's
    monkeypatch.setattr(module, "TRY_AGAIN_S", 0.0)
    monkeypatch.setattr(module, "LAG_INTERVAL_S", 0.1)
    monkeypatch.setattr(trouble, "STUCK_S", 0.0)
    made = Bench(tmp_path)
    yield made
    made.close()


def until(condition: Callable[[], object]) -> None:
    ends_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_at, "it never came to be"
        time.sleep(0.05)


def test_a_channel_that_cannot_run_is_told_and_keeps_nobody_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a new version refuses what an older one took. Its records wait for it."""
    subscribed = {}
    for name, query in (("good", GOOD), ("bad", REFUSED)):
        bench.store.catalog.create_channel(channel(name, query))
        made, _ = bench.store.subscriptions.subscribe("ann", name, {"kind": "fire"}, None)
        subscribed[name] = made.backend.id
    bench.engine.start()
    bench.log.append("reports", [json.dumps({"id": 1, "kind": "fire"}).encode()]).result()
    until(lambda: bench.results(subscribed["good"]) == 1)
    said = bench.engine.trouble
    assert said is not None
    assert said.startswith("channel bad: it cannot run: ")
    assert "rand()" in said
    assert "good" not in said
    bad = bench.engine.trouble_of("bad")
    assert bad is not None
    assert bench.engine.lag(bench.store.catalog.channel("bad")).records == 1

    check, good = bench.engine.check, channel("bad", GOOD)
    monkeypatch.setattr(bench.engine, "check", lambda _: check(good))
    until(lambda: bench.results(subscribed["bad"]) == 1)
    until(lambda: bench.engine.trouble is None)


def test_a_channel_made_for_real_time_mode_says_what_it_lacks(bench: Bench) -> None:
    bench.store.catalog.create_channel(channel("c", GOOD, mode="real-time"))
    bench.engine.start()
    said = bench.engine.trouble
    assert said is not None
    assert "needs a log on Kafka" in said


def test_a_refused_channel_that_is_dropped_is_no_trouble(bench: Bench) -> None:
    bench.store.catalog.create_channel(channel("bad", REFUSED))
    bench.engine.start()
    until(lambda: bench.engine.trouble)
    bench.store.catalog.drop_channel("bad")
    bench.engine.drop("bad")
    time.sleep(0.5)
    assert bench.engine.trouble is None
