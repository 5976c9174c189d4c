"""Spark's matching gives exactly what the plain-Python reference gives, on random everything."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import Column, Dataset
from tocsin.spark.channels import ParameterTable, compile_channel, match, settle
from tocsin.spark.local import SMALL_ROWS, localised
from tocsin.spark.records import schema_of
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel

from .reference import (
    CONDITIONS,
    JOINS,
    OPEN,
    PARAMETERS,
    PLACES,
    REPORTS,
    SHAPES,
    Question,
    Record,
)

pytestmark = pytest.mark.spark

DATASETS = {
    name: Dataset(name, tuple(Column(column, kind) for column, kind in columns.items()))
    for name, columns in (("reports", REPORTS), ("places", PLACES))
}

KINDS = st.sampled_from(["fire", "flood", "storm"])
SEVS = st.integers(0, 6)
DAYS = st.integers(1, 9).map(lambda day: f"2026-01-0{day}")
# Few places, so that things meet; both poles, both sides of the date line, and Berlin.
SPOTS = st.one_of(
    st.tuples(st.sampled_from([90.0, 89.9, -89.95, -90.0]), st.floats(-180, 180)),
    st.tuples(st.floats(-1, 1), st.sampled_from([180.0, -180.0, 179.5, -179.5])),
    st.tuples(st.floats(52, 53), st.floats(13, 14)),
    st.sampled_from([(52.5, 13.4), (0.0, 0.0), (0.0, 180.0)]),
)
RADII = st.sampled_from([-1.0, 0.0, 0.4, 7.0, 60.0, 250.0, 3000.0, 20100.0])


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.none())


@st.composite
def _reports(draw: st.DrawFn) -> list[Record]:
    made = []
    for number in range(draw(st.integers(0, 14))):
        lat, lon = draw(SPOTS)
        made.append(
            {
                "id": number,
                "kind": draw(_maybe(KINDS)),
                "sev": draw(_maybe(SEVS)),
                "lat": draw(_maybe(st.just(lat))),
                "lon": lon,
                "day": draw(_maybe(DAYS)),
            }
        )
    return made


@st.composite
def _places(draw: st.DrawFn) -> list[Record]:
    made = []
    for number in range(draw(st.integers(0, 5))):
        lat, lon = draw(SPOTS)
        reach = draw(_maybe(RADII))
        made.append(
            {"pid": number, "kind": draw(_maybe(KINDS)), "plat": lat, "plon": lon, "reach": reach}
        )
    return made


@st.composite
def _arguments(draw: st.DrawFn) -> Record:
    lat, lon = draw(SPOTS)
    lo = draw(st.integers(-1, 5))
    return {
        "kind": draw(KINDS),
        "lo": lo,
        "hi": lo + draw(st.integers(-1, 4)),
        "lat": lat,
        "lon": lon,
        "km": draw(RADII),
        "day": draw(DAYS),
    }


@st.composite
def _question(draw: st.DrawFn) -> Question:
    def some(names: Iterable[str], least: int = 0, most: int = 3) -> tuple[str, ...]:
        drawn = st.lists(st.sampled_from(sorted(names)), min_size=least, max_size=most, unique=True)
        return tuple(draw(drawn))

    shape = draw(st.sampled_from(SHAPES))
    join = draw(st.sampled_from(sorted(JOINS)))
    on = some(JOINS[join], 1, 2) if join else ()
    # One level deeper a parameter in EXISTS is refused; that has its own test.
    deep = shape in ("top", "counted", "ranked", "union")
    usable = [
        condition for condition in CONDITIONS if not (deep and condition.startswith("EXISTS"))
    ]
    conditions = some(usable)
    others = some(usable) if shape == "union" else ()
    return Question(join, on, conditions, shape, others, shows=draw(st.booleans()))


@st.composite
def _sets(draw: st.DrawFn, question: Question) -> list[Record]:
    """Parameter sets, of which some leave open what they may."""
    free = sorted(PARAMETERS.keys() - question.needed())
    linking = sorted(question.used() - question.needed()) or free
    masks = [draw(st.sets(st.sampled_from(each), max_size=3)) for each in (linking, free)]
    made = []
    for _ in range(draw(st.integers(0, 6))):
        mask = draw(st.sampled_from([set(), *masks]))
        made.append(draw(_arguments()) | dict.fromkeys(mask, OPEN))
    return made


def _given(arguments: Record, used: set[str]) -> Record:
    return {name: value for name, value in arguments.items() if name in used}


def _frame(spark: SparkSession, name: str, records: list[Record], start: int) -> DataFrame:
    lines = [json.dumps({**record, "_position": start + at}) for at, record in enumerate(records)]
    rows = spark.createDataFrame(pa.table({"line": pa.array(lines, pa.string())}))
    schema = schema_of(DATASETS[name])
    return rows.select(F.from_json("line", schema).alias("r")).select("r.*")


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take Spark minutes
)
@given(
    question=_question(),
    reports=_reports(),
    places=_places(),
    cuts=st.lists(st.integers(0, 14), max_size=2),
    data=st.data(),
)
def test_spark_and_the_reference_agree(
    spark: SparkSession,
    question: Question,
    reports: list[Record],
    places: list[Record],
    cuts: list[int],
    data: st.DataObject,
) -> None:
    used = question.used()
    declared = ", ".join(f"{name} {kind}" for name, kind in PARAMETERS.items() if name in used)
    text = " ".join(("CREATE CONTINUOUS CHANNEL c(", declared, ") AS", question.sql()))
    statement = parse_one(text)
    assert isinstance(statement, CreateChannel)
    compiled = compile_channel(statement, DATASETS)
    assert compiled.openings.needed.keys() == question.needed()
    small_rows = data.draw(st.sampled_from([0, SMALL_ROWS]))
    keep = data.draw(st.sampled_from([localised, lambda frame: frame]))  # on the driver, or not
    table = ParameterTable(spark, compiled, small_rows=small_rows)
    numbered = dict(enumerate(data.draw(_sets(question)), start=100))
    alive: dict[int, Record] = {}
    table.replace(0, [])
    edges = [0, *sorted(min(cut, len(reports)) for cut in cuts), len(reports)]
    runs: list[DataFrame] = []
    expected: Counter[tuple[int, int, str]] = Counter()
    for number, (first, last) in enumerate(pairwise(edges)):
        # Subscriptions come and go between batches.
        wanted = data.draw(st.sets(st.sampled_from(sorted(numbered)))) if numbered else set()
        if number == 0:
            wanted = set(numbered)
        added = [
            (each, settle(compiled.channel, _given(numbered[each], used)))
            for each in sorted(wanted - alive.keys())
        ]
        removed = sorted(alive.keys() - wanted)
        table.update(number + 1, added, removed)
        alive = {each: numbered[each] for each in wanted}
        batch = reports[first:last]
        for backend, arguments in alive.items():
            for answer in question.answers(batch, places, arguments):
                expected[number, backend, json.dumps(answer, sort_keys=True)] += 1
        parameters = table.current()
        assert (parameters is None) == (not alive)
        if parameters is not None:
            stored = {"places": keep(_frame(spark, "places", places, 0))}
            new = {"reports": keep(_frame(spark, "reports", batch, first))}
            found = match(spark, compiled, parameters, stored, new)
            runs.append(found.select(F.lit(number).alias("run"), "*"))
    got: Counter[tuple[int, int, str]] = Counter()
    if runs:
        for row in reduce(DataFrame.unionAll, runs).collect():
            payload = json.dumps(json.loads(row["payload"]), sort_keys=True)
            got[row["run"], row["__backend"], payload] += 1
    table.close()
    assert got == expected
