"""Who subscribes while a run is under way is asked for once, also when the query fails meanwhile.
Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tocsin.model import Arguments
from tocsin.spark.answering import Answering, Prepared
from tocsin.spark.asking import Ask, Blame, Record, Row, Rows
from tocsin.spark.channel_runs import ChannelRuns
from tocsin.spark.window import Window
from tocsin.storage.store.progress import Progress
from tocsin.storage.store.store import Store
from tocsin.testing.simulation.questions import CHANNELS, REPORTS, PlainSets

GOOD, BAD = Record("reports", 10), Record("reports", 20)


@dataclass
class Query:
    """Says "b" to everybody about each record, and fails on the bad one."""

    asked: Mapping[int, Arguments]
    meanwhile: Callable[[], None]

    def rows(
        self,
        *,
        only: Sequence[Record] | None = None,
        without: Collection[Record] = (),
        sets: Mapping[int, Arguments] | None = None,
    ) -> Rows:
        asked = self.asked if sets is None else sets
        records = [record for record in only or self.records() if record not in without]
        if asked and BAD in records:
            self.meanwhile()
            raise ValueError("it cannot compute with that")
        return Rows.of(
            Row(number, record.position, b'"b"') for number in asked for record in records
        )

    def fails(self, records: Sequence[Record], sets: Mapping[int, Arguments]) -> str | None:
        return "it cannot compute with that" if BAD in records else None

    def records(self) -> list[Record]:
        return [GOOD, BAD]

    def texts(self, records: Collection[Record]) -> list[tuple[Record, str]]:
        return [(record, "{}") for record in records]


@dataclass
class Queries:
    meanwhile: Callable[[], None]

    def parameters(self, prepared: Prepared, sets: Mapping[int, Arguments]) -> Any:
        return dict(sets)

    def tries(self, prepared: Prepared, ask: Ask, parameters: Any) -> Query:
        return Query(parameters, self.meanwhile)

    def blame(self, error: Exception) -> Blame:
        return Blame.QUERY

    def reason(self, error: Exception) -> str:
        return str(error)


def test_who_subscribes_while_a_query_fails_gets_each_result_once(tmp_path: Path) -> None:
    channel, query = CHANNELS["alerts"]
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.catalog.create_dataset(REPORTS)
        store.catalog.create_channel(channel)

        def subscribe(kind: str) -> int:
            subscriptions = store.subscriptions
            made, _ = subscriptions.subscribe("ann", "alerts", {"kind": kind}, None, None, 0)
            return made.backend.id

        queries = cast(Any, Queries(lambda: cast(None, subscribe("b"))))
        bury = lambda channel, records, cause: None  # noqa: E731
        answering = Answering(queries, store, bury, result_limit_bytes=1000, patience_s=0.0)
        runs = ChannelRuns(store, answering, on_commit=lambda channel, committed: None)
        runs.add(Prepared(channel, query, PlainSets()))
        early = subscribe("a")
        window = Window(Progress({"reports": 0}, 0), Progress({"reports": 30}, 1))
        runs.run("alerts", Ask(window, cast(Any, SimpleNamespace()), 60.0))
        late = subscribe("b")
        for backend in (early, late):
            stored = store.results.read(backend, 0, 100, 100).results
            assert [result.payload for result in stored if result.payload == b'"b"'] == [b'"b"']
