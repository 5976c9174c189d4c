"""DuckDB: 1,000 new records with a million parameter sets, as a run asks for them, beside DuckDB.

Ours is what a run of a continuous channel does between reading its records and storing its results:
the records become the rows of a standing query, Spark answers, and the rows are Python's. DuckDB
has the same sets in a table of its own, and for nearness and ranges the same trick: each set lies
there once for every grid cell, or bucket, that it touches, and each record brings the key of its
own; both are made before. It answers on one thread, with the same JSON in the same order. Both
answers must be equal, or the benchmark fails.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from bench.findings import Finding
from tocsin.model import Column, Dataset
from tocsin.protocol import columns
from tocsin.settings import Settings
from tocsin.spark.asking import Rows, rows_of
from tocsin.spark.channels import CompiledChannel, ParameterTable, compile_channel
from tocsin.spark.local import localised
from tocsin.spark.records import schema_of
from tocsin.spark.session import build_session
from tocsin.spark.standing_queries import StandingQueries
from tocsin.sql import CreateChannel, parse_one

SETS, QUICK_SETS = 1_000_000, 50_000
RECORDS = 1000
MOST_TIMES = 1.5  # as long as DuckDB takes
MEMORY = "3g"  # of Spark
LIMIT_S = 120.0

PLACES_A_SET = 0.2
DEGREES = 3.0  # the side of the square in which everything happens, for a million sets
CELL_DEGREES = 0.05  # no set reaches farther than into the next cell
BUCKET = 0.0001
WIDTH = 0.00002  # of a range

REPORTS = Dataset(
    "reports",
    (
        Column("id", "STRING"),
        Column("place", "STRING"),
        Column("level", "DOUBLE"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
    ),
)
Row = dict[str, Any]
EXACT = (
    "2 * 6371.0088 * asin(sqrt(pow(sin(radians(p.lat - r.lat) / 2), 2)"
    " + cos(radians(r.lat)) * cos(radians(p.lat)) * pow(sin(radians(p.lon - r.lon) / 2), 2)))"
    " <= p.km"
)


class Case(Struct, frozen=True):
    """`keys` are those that a set is found by at DuckDB, `key` is a record's."""

    name: str
    parameters: str
    where: str
    arguments: Callable[[random.Random, int], Row]
    keys: Callable[[Row], Sequence[int]] = lambda _: (0,)
    key: Callable[[Row], int] = lambda _: 0
    test: str = "r.key = p.key"

    def compiled(self) -> CompiledChannel:
        made = parse_one(
            f"CREATE CONTINUOUS CHANNEL asked({self.parameters}) AS "  # noqa: S608
            f"SELECT r.id, r.place, r.level FROM NEW reports r WHERE {self.where}"
        )
        assert isinstance(made, CreateChannel)
        return compile_channel(made, {"reports": REPORTS})


def _place(chance: random.Random, sets: int) -> Row:
    return {"place": f"place-{chance.randrange(round(sets * PLACES_A_SET))}"}


def _spot(chance: random.Random, sets: int) -> Row:
    side = DEGREES * (sets / SETS) ** 0.5  # as many sets beside each other, however many there are
    lat, lon = (round(start + side * chance.random(), 6) for start in (33.0, -118.0))
    return {"lat": lat, "lon": lon}


def _ball(chance: random.Random, sets: int) -> Row:
    return {**_spot(chance, sets), "km": round(chance.uniform(0.5, 2.0), 3)}


def _interval(chance: random.Random, sets: int) -> Row:
    low = chance.random()
    return {"low": low, "high": low + WIDTH * SETS / sets}


def _cell(lat: float, lon: float) -> int:
    return int(lat // CELL_DEGREES) * 100_000 + int((lon + 360) // CELL_DEGREES)


def _cells(ball: Row) -> Sequence[int]:
    """Of the square around a ball."""
    up, aside = ball["km"] / 111.0, ball["km"] / 90.0
    lats, lons = (ball["lat"] - up, ball["lat"] + up), (ball["lon"] - aside, ball["lon"] + aside)
    return sorted({_cell(lat, lon) for lat in lats for lon in lons})


def _buckets(interval: Row) -> Sequence[int]:
    first, last = int(interval["low"] // BUCKET), int(interval["high"] // BUCKET)
    return range(first, last + 1)


CASES = (
    Case(
        "equality",
        "place STRING",
        "r.place = :place",
        _place,
        test="r.place = p.place",
    ),
    Case(
        "near",
        "lat DOUBLE, lon DOUBLE, km DOUBLE",
        "near(r.lat, r.lon, :lat, :lon, :km)",
        _ball,
        _cells,
        lambda record: _cell(record["lat"], record["lon"]),
        f"r.key = p.key AND {EXACT}",
    ),
    Case(
        "range",
        "low DOUBLE, high DOUBLE",
        "r.level >= :low AND r.level < :high",
        _interval,
        _buckets,
        lambda record: int(record["level"] // BUCKET),
        "r.key = p.key AND r.level >= p.low AND r.level < p.high",
    ),
)


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    sets, rounds = (QUICK_SETS, 10) if quick else (SETS, 20)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        say("starting Spark")
        settings = Settings(data=Path(folder), spark_memory=MEMORY)
        spark = build_session(settings, app_name="tocsin-bench")
        try:
            return [_measure(spark, case, sets, rounds, say) for case in CASES]
        finally:
            spark.stop()


def _measure(
    spark: SparkSession, case: Case, sets: int, rounds: int, say: Callable[[str], None]
) -> Finding:
    chance = random.Random(f"duckdb {case.name}")
    asked = [case.arguments(chance, sets) for _ in range(sets)]
    say(f"{case.name}: {sets:,} parameter sets")
    ours, theirs = _Ours(spark, case, asked), _Theirs(case, asked)
    del asked
    ours_s, theirs_s, found = [], [], 0
    for number in range(2 * rounds):
        say(f"{case.name}: round {number + 1} of {2 * rounds}")
        records = [_record(chance, sets, number * RECORDS + each) for each in range(RECORDS)]
        took_s, rows = ours.answer(records)
        their_s, table = theirs.answer(records)
        _compare(case, rows, table)
        if number >= rounds:  # Java compiles what runs often
            ours_s.append(took_s)
            theirs_s.append(their_s)
            found += len(rows)
    ours.close()
    return Finding(
        claim=f"{case.name}: {RECORDS:,} records with {sets:,} sets",
        unit="ms",
        ours=1000 * median(ours_s),
        baseline=1000 * median(theirs_s),
        baseline_is=f"DuckDB {duckdb.__version__}, one thread, the same grid",
        lower_is_better=True,
        target=None if sets < SETS else 1000 * MOST_TIMES * median(theirs_s),
        details={
            "results_per_round": found / rounds,
            "rounds_s": {"ours": ours_s, "baseline": theirs_s},
        },
    )


def _record(chance: random.Random, sets: int, number: int) -> Row:
    where = _spot(chance, sets)
    return {"id": f"report-{number}", **_place(chance, sets), "level": chance.random(), **where}


class _Ours:
    def __init__(self, spark: SparkSession, case: Case, asked: Sequence[Row]) -> None:
        self._spark = spark
        self._compiled = case.compiled()
        self._table = ParameterTable(spark, self._compiled)
        self._table.replace(1, enumerate(asked))
        self._standing = StandingQueries(spark)

    def answer(self, records: Sequence[Row]) -> tuple[float, Rows]:
        new = {"reports": self._frame(records)}
        began = time.perf_counter()
        parameters = self._table.current()
        assert parameters is not None
        table = self._standing.rows(self._compiled, parameters, {}, new, LIMIT_S)
        if table is None:
            raise AssertionError("it was not asked as a standing query")
        rows = rows_of(table)
        return time.perf_counter() - began, rows

    def _frame(self, records: Sequence[Row]) -> DataFrame:
        rows = [
            {**record, columns.POSITION: number, columns.RECEIVED_AT: None}
            for number, record in enumerate(records)
        ]
        frame = self._spark.createDataFrame(rows, schema_of(REPORTS))
        return localised(frame)

    def close(self) -> None:
        self._standing.forget(self._compiled.channel.name)
        self._table.close()


class _Theirs:
    def __init__(self, case: Case, asked: Sequence[Row]) -> None:
        self._case = case
        self._database = duckdb.connect(config={"threads": 1})
        sets = pa.Table.from_batches(_batches(_with_keys(case, asked)))  # noqa: F841 (read by name)
        self._database.execute("CREATE TABLE sets AS SELECT * FROM sets")
        self._question = (
            "SELECT p.backend, r.position,"  # noqa: S608
            " json_object('id', r.id, 'place', r.place, 'level', r.level) AS payload"
            f" FROM sets p JOIN records r ON {case.test} ORDER BY p.backend, r.position"
        )

    def answer(self, records: Sequence[Row]) -> tuple[float, pa.Table]:
        rows = [
            {**record, "position": number, "key": self._case.key(record)}
            for number, record in enumerate(records)
        ]
        self._database.register("records", pa.Table.from_pylist(rows))
        began = time.perf_counter()
        answer = self._database.execute(self._question).to_arrow_table()
        return time.perf_counter() - began, answer


def _with_keys(case: Case, asked: Sequence[Row]) -> Iterator[Row]:
    for backend, given in enumerate(asked):
        for key in case.keys(given):
            yield {"backend": backend, "key": key, **given}


def _batches(rows: Iterator[Row], at_once: int = 100_000) -> Iterator[pa.RecordBatch]:
    part: list[Row] = []
    for row in rows:
        part.append(row)
        if len(part) == at_once:
            yield pa.RecordBatch.from_pylist(part)
            part = []
    if part:
        yield pa.RecordBatch.from_pylist(part)


def _compare(case: Case, rows: Rows, table: pa.Table) -> None:
    theirs = list(zip(table["backend"].to_pylist(), table["position"].to_pylist(), strict=True))
    ours = list(zip(rows.backends, rows.orders, strict=True))
    if ours != theirs:
        raise AssertionError(f"{case.name}: {len(ours)} results, and {len(theirs)} of DuckDB's")
    last = [json.loads(told) for told in (*rows.payloads[-1:], table["payload"][-1].as_py())]
    if ours and last[0] != last[1]:
        raise AssertionError(f"{case.name}: {last[0]} is not {last[1]}")
