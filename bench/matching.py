"""Matching: a channel's new records with all its parameter sets, against a nested-loop join.

The baseline is the query as its author wrote it, joined with the same cached table of parameter
sets by testing every pair: for ranges and nearness what Spark plans by itself, for equality what
a hint makes it plan. Both give the same results, which is checked, in the same session, in turns.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from bench.findings import Finding
from tocsin.model import ANY, Column, Dataset
from tocsin.protocol.columns import ROW_BACKEND
from tocsin.settings import Settings
from tocsin.spark.channels import (
    Parameters,
    ParameterTable,
    compile_channel,
    match,
)
from tocsin.spark.channels.matching import payloads
from tocsin.spark.channels.near import exact
from tocsin.spark.session import build_session
from tocsin.sql import CreateChannel, parse_one

RECORDS = 100
TOWN_DEGREES = 1.0  # the side of the square in which everything happens: about 100 km

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


class Case(Struct, frozen=True):
    name: str
    parameters: str
    where: str
    arguments: Callable[[random.Random], dict[str, Any]]
    pairwise: str  # the same condition over r (records) and p (parameter sets)

    def statement(self) -> CreateChannel:
        made = parse_one(
            f"CREATE CONTINUOUS CHANNEL asked({self.parameters}) AS "  # noqa: S608
            f"SELECT r.id, r.place, r.level FROM NEW reports r WHERE {self.where}"
        )
        assert isinstance(made, CreateChannel)
        return made


CASES = (
    Case(
        "equality",
        "place STRING",
        "r.place = :place",
        lambda chance: {"place": f"place-{chance.randrange(20_000)}"},
        "r.place = p.__p_place",
    ),
    Case(
        "near",
        "lat DOUBLE, lon DOUBLE, km DOUBLE",
        "near(r.lat, r.lon, :lat, :lon, :km)",
        lambda chance: {**_spot(chance), "km": round(chance.uniform(0.5, 2.0), 3)},
        exact("r.lat", "r.lon", "p.__p_lat", "p.__p_lon", "p.__p_km"),
    ),
    Case(
        "open",
        "place STRING, low DOUBLE, high DOUBLE",
        "r.place = :place AND r.level >= :low AND r.level < :high",
        lambda chance: _partly_open(chance),
        "coalesce(r.place = p.__p_place, true) AND coalesce(r.level >= p.__p_low, true)"
        " AND coalesce(r.level < p.__p_high, true)",
    ),
    Case(
        "range",
        "low DOUBLE, high DOUBLE",
        "r.level >= :low AND r.level < :high",
        lambda chance: _interval(chance),
        "r.level >= p.__p_low AND r.level < p.__p_high",
    ),
)


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    sets = 20_000 if quick else 100_000
    rounds = 3 if quick else 5
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        say("starting Spark")
        settings = Settings(data=Path(folder), master="local[*]")
        spark = build_session(settings, app_name="tocsin-bench")
        try:
            findings = []
            for case in CASES:
                say(f"{case.name}: {RECORDS} records, {sets:,} parameter sets")
                findings.append(_measure(spark, case, sets, rounds))
            return findings
        finally:
            spark.stop()


def _measure(spark: SparkSession, case: Case, sets: int, rounds: int) -> Finding:
    chance = random.Random(f"matching {case.name}")
    compiled = compile_channel(case.statement(), {"reports": REPORTS})
    table = ParameterTable(spark, compiled)
    table.replace(1, ((number, case.arguments(chance)) for number in range(sets)))
    parameters = table.current()
    assert parameters is not None
    pairs = _plain_parameters(parameters)
    batches = [_records(spark, chance) for _ in range(rounds + 1)]
    ours_s, loop_s, matched = [], [], 0
    for number, records in enumerate(batches):
        took_s, found = _timed(match(spark, compiled, parameters, {}, {"reports": records}))
        pairwise = _nested_loop(spark, case, records, pairs)
        loop_took_s, looped = _timed(pairwise)
        if found != looped:
            raise AssertionError(f"{case.name}: {len(found)} results, {len(looped)} pair by pair")
        if number == 0:  # the first round compiles; and shows that the baseline is what it claims
            _check_plan(pairwise)
            continue
        ours_s.append(took_s)
        loop_s.append(loop_took_s)
        matched += len(found)
    pairs.unpersist()
    table.close()
    ours, baseline = (sorted(each)[len(each) // 2] for each in (ours_s, loop_s))
    return Finding(
        claim=f"{case.name}: {RECORDS} records with {sets:,} sets",
        unit="ms",
        ours=1000 * ours,
        baseline=1000 * baseline,
        baseline_is="nested-loop join of the same query",
        lower_is_better=True,
        details={
            "strategy": dict(compiled.describe(parameters.by_mask)),
            "pairs_per_s": {
                "ours": RECORDS * sets / ours,
                "baseline": RECORDS * sets / baseline,
            },
            "results_per_batch": matched / rounds,
            "rounds_s": {"ours": ours_s, "baseline": loop_s},
        },
    )


def _timed(frame: DataFrame) -> tuple[float, list[tuple[int, str]]]:
    """How long the whole answer took, and the answer itself."""
    began = time.perf_counter()
    told = frame.select("__backend", "payload").toArrow()
    took_s = time.perf_counter() - began
    return took_s, sorted(zip(*(column.to_pylist() for column in told.columns), strict=True))


def _plain_parameters(parameters: Parameters) -> DataFrame:
    """The parameter sets without the keys that we find them by, cached as ours are. What is open is
    NULL."""
    frames = [
        frame.drop("__key").distinct()
        for parts in parameters.by_mask.values()
        for _, frame, _ in parts
    ]
    frame = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames).cache()
    frame.count()
    return frame


def _nested_loop(
    spark: SparkSession, case: Case, records: DataFrame, pairs: DataFrame
) -> DataFrame:
    joined = spark.sql(
        "SELECT /*+ SHUFFLE_REPLICATE_NL(p) */ "  # noqa: S608
        f"p.__backend AS {ROW_BACKEND}, r.id, r.place, r.level "
        f"FROM {{records}} r JOIN {{pairs}} p ON {case.pairwise}",
        records=records,
        pairs=pairs,
    )
    return payloads(joined)


def _check_plan(frame: DataFrame) -> None:
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    if "CartesianProduct" not in plan and "NestedLoop" not in plan:
        raise AssertionError(f"the baseline is no nested loop:\n{plan}")


def _records(spark: SparkSession, chance: random.Random) -> DataFrame:
    rows = [
        {
            "id": f"report-{number}",
            "place": f"place-{chance.randrange(20_000)}",
            "level": chance.random(),
            **_spot(chance),
            "_position": number,
            "_received_at": datetime.now(UTC),
        }
        for number in range(RECORDS)
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows))


def _spot(chance: random.Random) -> dict[str, float]:
    lat, lon = (round(start + TOWN_DEGREES * chance.random(), 6) for start in (33.0, -118.0))
    return {"lat": lat, "lon": lon}


def _interval(chance: random.Random) -> dict[str, float]:
    low = chance.random()
    return {"low": low, "high": low + 0.0002}


def _partly_open(chance: random.Random) -> dict[str, Any]:
    """A third asks for a place at any level, a third for a level at any place, a third for both."""
    place, levels = {"place": f"place-{chance.randrange(20_000)}"}, _interval(chance)
    opened = chance.choice(([], ["place"], ["low", "high"]))
    return place | levels | {name: dict(ANY) for name in opened}
