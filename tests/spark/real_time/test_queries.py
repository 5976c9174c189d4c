"""What becomes of queries as channels come, go and fail. Spark is played."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tocsin.model import Column, Dataset
from tocsin.service.trouble import Troubles
from tocsin.spark.asking import Blame
from tocsin.spark.channels import CompiledChannel, Mask, compile_channel
from tocsin.spark.real_time import queries as module
from tocsin.spark.real_time.members import Member, make_member
from tocsin.spark.real_time.newcomers import Batch
from tocsin.spark.real_time.queries import Queries
from tocsin.spark.real_time.shared import SharedText
from tocsin.spark.real_time.streaming import Running
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel

DATASETS = {
    name: Dataset(name, (Column("id", "INT"), Column("kind", "STRING")))
    for name in ("reports", "other")
}


class OwnFault(Exception):
    """What a query fails on by itself."""


class PlayedQuery:
    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False

    def fail(self, error: Exception) -> None:
        self.isActive, self.error = False, error


class PlayedSpark:
    """`bad` are the channels that fail on what is there."""

    def __init__(self) -> None:
        self.began: list[tuple[set[str], int]] = []
        self.running: list[Running] = []
        self.bad: set[str] = set()
        self.away = False
        self.while_starting: Callable[[], None] = lambda: None

    def start(self, text: SharedText, dataset: str, begin: int) -> Running:
        if self.away:
            raise OSError("Kafka is away")
        self.while_starting()
        self.began.append((set(text.channels), begin))
        at = Batch(time.time(), begin)
        query: Any = PlayedQuery()
        self.running.append(Running(dataset, text, query, Path("none"), 0.0, begin, at))
        return self.running[-1]

    def note_batch(self, running: Running) -> None:
        pass

    def failure(self, text: SharedText, dataset: str, start: int, end: int) -> Exception | None:
        return OwnFault("no") if self.bad & set(text.channels) else None


class Bench:
    def __init__(self, slots: int = 8) -> None:
        self.spark = PlayedSpark()
        self.stands: dict[str, int] = {}
        self.ends = {"reports": 100, "other": 100}
        self.masks: dict[str, set[Mask]] = {}
        self.troubles = Troubles()
        self.queries = Queries(
            self.spark,  # type: ignore[arg-type]  # it plays
            member,
            slots,
            lambda channel: self.stands.get(channel.name, 100),
            lambda: self.ends,
            lambda name: self.masks.get(name, set()),
            self.troubles,
        )

    def watch(self, *names: str, dataset: str = "reports") -> None:
        for name in names:
            compiled = channel(name, dataset)
            self.queries.watch(compiled.channel, compiled)

    def look(self) -> list[tuple[set[str], int]]:
        """What began since."""
        known = len(self.spark.began)
        self.queries.look_after()
        return self.spark.began[known:]


def channel(name: str, dataset: str = "reports") -> CompiledChannel:
    asked = parse_one(
        f"CREATE CONTINUOUS CHANNEL {name}(kind STRING) AS SELECT id FROM NEW {dataset} r"  # noqa: S608
        " WHERE r.kind = :kind"
    )
    assert isinstance(asked, CreateChannel)
    return compile_channel(asked, DATASETS)


def member(compiled: CompiledChannel, mask: Mask) -> Member:
    return make_member(compiled, mask, lambda equalities, *_: ["STRING"] * len(equalities))


@pytest.fixture(autouse=True)
def _faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def blame(error: Exception) -> Blame:
        return Blame.QUERY if isinstance(error, OwnFault) else Blame.MACHINERY

    monkeypatch.setattr(module, "blame", blame)


def names_of(running: Sequence[Running]) -> list[set[str]]:
    return [set(its.channels) for its in running if its.query.isActive]


def test_channels_of_a_dataset_begin_together_where_the_last_one_stands() -> None:
    bench = Bench()
    bench.stands = {"a": 40, "b": 30}
    bench.watch("a", "b")
    bench.watch("c", dataset="other")
    assert not bench.queries.serves("a")
    assert bench.look() == [({"a", "b"}, 30), ({"c"}, 100)]
    assert bench.queries.serves("a")
    assert (bench.queries.reached("a"), bench.queries.reached("b")) == (40, 30)
    assert bench.queries.passed() == {"reports": 30, "other": 100}
    assert "shared with 1 other" in bench.queries.describe("a")
    assert bench.look() == []


def test_new_channel_joins_when_that_repeats_little() -> None:
    bench = Bench()
    bench.watch("a")
    bench.look()
    running = bench.spark.running[0]
    running.started_at = time.monotonic()
    bench.watch("b")
    assert bench.look() == []  # more may come
    assert not bench.queries.serves("b")
    running.started_at -= 60
    running.batch = Batch(time.time() - 60, 100)
    bench.ends["reports"] = 100_000
    assert bench.look() == []  # it has looked at very many since its last batch
    running.reached, bench.stands["b"] = 99_900, 99_800
    assert bench.look() == [({"a", "b"}, 99_800)]
    assert bench.queries.reached("a") == 99_900  # whatever it repeats
    assert names_of(bench.spark.running) == [{"a", "b"}]


def test_query_that_begins_anew_leaves_its_channels_to_no_ordinary_runs() -> None:
    bench = Bench()
    bench.watch("a")
    bench.look()
    bench.spark.running[0].started_at -= 60
    bench.watch("b")
    served: list[bool] = []
    bench.spark.while_starting = lambda: served.append(bench.queries.serves("a"))
    bench.look()
    assert served == [True]
    assert bench.queries.serves("b")
    bench.watch("c")
    bench.spark.running[1].started_at -= 60
    bench.spark.away = True
    bench.look()
    assert not bench.queries.serves("a")  # nothing took its place


def test_parameters_that_a_subscription_opens_are_a_member_more() -> None:
    bench = Bench()
    bench.watch("a")
    bench.look()
    bench.spark.running[0].started_at -= 60
    bench.masks["a"] = {frozenset({"kind"})}
    assert bench.look() == []  # nobody said that there is a subscription
    bench.queries.subscribed("a")
    assert bench.look() == [({"a"}, 100)]
    assert bench.queries.batches("a").keys() == {frozenset(), frozenset({"kind"})}


def test_dropped_channel_stops_nobody_and_its_name_is_free_at_once() -> None:
    bench = Bench()
    bench.watch("a", "b")
    bench.look()
    bench.queries.unwatch("b")
    assert names_of(bench.spark.running) == [{"a", "b"}]
    assert not bench.queries.serves("b")
    bench.queries.release("b")  # somebody makes another one
    assert names_of(bench.spark.running) == []
    bench.watch("b")
    assert bench.look() == [({"a", "b"}, 100)]


def test_last_channel_ends_its_query() -> None:
    bench = Bench()
    bench.watch("a")
    bench.look()
    bench.queries.unwatch("a")
    assert bench.look() == []
    assert names_of(bench.spark.running) == []


def test_culprit_is_kept_apart_and_the_others_go_on_at_once() -> None:
    bench = Bench()
    bench.watch("a", "b", "c")
    bench.look()
    bench.spark.bad = {"b"}
    bench.spark.running[0].reached = 130
    bench.spark.running[0].query.fail(OwnFault("no"))  # type: ignore[attr-defined]
    assert bench.look() == [({"a", "c"}, 130)]
    assert not bench.queries.serves("b")
    assert "it failed" in bench.queries.describe("b")
    assert bench.troubles.of("b") is None  # ordinary runs serve it
    watched = bench.queries._watched["b"]
    watched.failed_at -= 1000
    bench.spark.running[1].started_at -= 60
    assert bench.look() == [({"a", "b", "c"}, 130)]
    bench.spark.running[2].query.fail(OwnFault("no"))  # type: ignore[attr-defined]
    bench.look()
    assert watched.suspect_s(time.monotonic()) > 100  # twice as long


def test_failure_that_is_nobodys_alone_sets_all_apart() -> None:
    bench = Bench()
    bench.watch("a", "b")
    bench.look()
    bench.spark.running[0].query.fail(OwnFault("no"))  # type: ignore[attr-defined]
    assert bench.look() == []
    assert not bench.queries.serves("a")
    assert not bench.queries.serves("b")


def test_what_the_machinery_stops_begins_again_and_is_told_meanwhile() -> None:
    bench = Bench()
    bench.watch("a")
    bench.look()
    bench.spark.running[0].reached = 150
    bench.spark.running[0].query.fail(OSError("a disk is full"))  # type: ignore[attr-defined]
    bench.spark.away = True
    bench.look()
    assert bench.troubles.of("a") is not None
    assert not bench.queries.serves("a")
    bench.spark.away = False
    assert bench.look() == [({"a"}, 150)]
    bench.look()
    assert bench.troubles.of("a") is None


def test_queries_beyond_the_slots_do_not_begin() -> None:
    bench = Bench(slots=1)
    bench.watch("a")
    bench.watch("b", dataset="other")
    assert bench.look() == [({"a"}, 100)]
    assert "slots are taken" in bench.queries.describe("b")
