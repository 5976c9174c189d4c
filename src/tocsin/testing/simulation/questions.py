"""The channels of the simulated cluster, and the plain matcher that answers them in Spark's place.

Its failures are Spark's, too: of the machinery, of a query that takes too long, and of a query that
cannot compute with a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from tocsin.model import Arguments, Channel, Column, Dataset, Parameter
from tocsin.spark.answering import Prepared
from tocsin.spark.asking import Ask, Blame, Overlong, Record, Row, Rows
from tocsin.testing.simulation.stored import Line, StoredFiles

REPORTS = Dataset("reports", (Column("id", "INT"), Column("kind", "STRING"), Column("who", "INT")))
USERS = Dataset("users", (Column("who", "INT"), Column("place", "INT")), primary_key=("who",))
POISON = -1  # of a user whom no query can compute with

_BY_KIND = (Parameter("kind", "STRING"),)


def _channel(
    name: str, kind: str, reads: tuple[str, ...], period_s: float | None = None
) -> Channel:
    return Channel(
        name,
        "continuous" if kind == "continuous" else "repetitive",
        _BY_KIND,
        query=name,
        reads=reads,
        new=("reports",),
        period_s=period_s,
        push=name == "alerts",
    )


@dataclass(frozen=True)
class PlainQuery:
    """What must be known of a channel's query to run it."""

    new: tuple[str, ...] = ("reports",)
    stored: tuple[str, ...] = ()
    by_record: bool = True
    needs_new_records: bool = True
    uses_window: bool = False


CHANNELS: dict[str, tuple[Channel, PlainQuery]] = {
    "alerts": (_channel("alerts", "continuous", ("reports",)), PlainQuery()),
    "digest": (_channel("digest", "repetitive", ("reports",), 3.0), PlainQuery()),
    "places": (
        _channel("places", "repetitive", ("reports", "users"), 2.0),
        PlainQuery(stored=("users",)),
    ),
    "windows": (
        _channel("windows", "continuous", ("reports",)),
        PlainQuery(by_record=False, uses_window=True),
    ),
}
INTERESTS: list[tuple[str, Arguments]] = [
    ("alerts", {"kind": "a"}),
    ("alerts", {"kind": "b"}),
    ("digest", {"kind": "a"}),
    ("places", {"kind": "b"}),
    ("windows", {"kind": "a"}),
]
"""What subscribers may ask for, by number."""


class QueryFailed(Exception):
    """The query cannot compute with a record."""


class SparkIsGone(Exception):
    """The machinery failed."""


@dataclass
class PlainSets:
    """A channel's parameter sets."""

    version: int = -1
    sets: dict[int, Arguments] = field(default_factory=dict)

    def replace(self, version: int, sets: Iterable[tuple[int, Arguments]]) -> None:
        self.version, self.sets = version, dict(sets)

    def update(
        self, version: int, added: Iterable[tuple[int, Arguments]], removed: Iterable[int]
    ) -> None:
        self.version = version
        self.sets = {n: given for n, given in self.sets.items() if n not in set(removed)}
        self.sets |= dict(added)

    def current(self) -> dict[int, Arguments] | None:
        return dict(self.sets) or None

    def holds(self, backend: int) -> bool:
        return backend in self.sets


class PlainQueries:
    """`compute` lets the world go on while a query is under way, and may raise Spark's failures."""

    def __init__(self, files: StoredFiles, compute: Callable[[], None]) -> None:
        self._files = files
        self._compute = compute

    def parameters(self, prepared: Prepared, sets: Mapping[int, Arguments]) -> Any:
        return dict(sets) or None

    def tries(self, prepared: Prepared, ask: Ask, parameters: Any) -> PlainTries:
        self._compute()  # until it is known which files there are
        return PlainTries(self._files, self._compute, prepared, ask, parameters)

    def blame(self, error: Exception) -> Blame:
        if isinstance(error, QueryFailed):
            return Blame.QUERY
        return Blame.LIMIT if isinstance(error, Overlong) else Blame.MACHINERY

    def reason(self, error: Exception) -> str:
        return str(error) or type(error).__name__


class PlainTries:
    def __init__(
        self,
        files: StoredFiles,
        compute: Callable[[], None],
        prepared: Prepared,
        ask: Ask,
        sets: dict[int, Arguments],
    ) -> None:
        query = prepared.compiled
        assert isinstance(query, PlainQuery)
        self._query, self._name = query, prepared.channel.name
        self._compute = compute
        self._sets = sets
        self._window = ask.window
        start, end = ask.window.range("reports")
        # As Spark plans a read: which files there are is looked up now, what is in them later.
        self._new = cache(files.plan("reports", start, end))
        self._stored = cache(files.plan("users", None, ask.snapshot.cut.ends.get("users", 0)))
        self._snapshot = ask.snapshot  # pinned while this lives

    def rows(
        self,
        *,
        only: Sequence[Record] | None = None,
        without: Collection[Record] = (),
        sets: Mapping[int, Arguments] | None = None,
    ) -> Rows:
        asked = self._sets if sets is None else sets
        if not asked:
            return Rows()
        self._compute()
        chosen = None if only is None else {record.position for record in only}
        left_out = {record.position for record in without}
        lines = [
            line
            for line in self._new()
            if (chosen is None or line.position in chosen) and line.position not in left_out
        ]
        if self._name == "alerts" and any(line.record["who"] == POISON for line in lines):
            raise QueryFailed("a record cannot be computed with")
        return Rows.of(
            sorted(
                row for number, given in asked.items() for row in self._say(number, given, lines)
            )
        )

    def _say(self, backend: int, given: Arguments, lines: list[Line]) -> list[Row]:
        mine = [line for line in lines if line.record["kind"] == given["kind"]]
        if self._query.uses_window:
            since, upto = self._window.since.at_us, self._window.upto.at_us
            said = {
                "ids": [line.record["id"] for line in mine],
                "window": [since, upto],
                "outside": [line.taken_us for line in mine if not since < line.taken_us <= upto],
            }
            return [Row(backend, 0, msgspec.json.encode(said))] if mine else []
        if self._name == "places":
            places: dict[int, int] = {}
            for line in self._stored():
                places[line.record["who"]] = line.record["place"]
            mine = [line for line in mine if line.record["who"] in places]
        rows = []
        for line in mine:
            answer = {"id": line.record["id"]}
            if self._name == "places":
                answer["place"] = places[line.record["who"]]
            rows.append(Row(backend, line.position, msgspec.json.encode(answer)))
        return rows

    def fails(self, records: Sequence[Record], sets: Mapping[int, Arguments]) -> str | None:
        try:
            self.rows(only=records, sets=sets)
        except QueryFailed as error:
            return str(error)
        return None

    def records(self) -> list[Record]:
        return [Record("reports", line.position) for line in self._new()]

    def texts(self, records: Collection[Record]) -> list[tuple[Record, str]]:
        wanted = {record.position for record in records}
        return [
            (Record("reports", line.position), msgspec.json.encode(line.record).decode())
            for line in self._new()
            if line.position in wanted
        ]
