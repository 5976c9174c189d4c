"""How matching runs: joins without nested loops, order, sessions, parameter sets that change."""

from __future__ import annotations

import gc
import json
import threading
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.model import ANY, Column, Dataset
from tocsin.spark.channels import (
    CompiledChannel,
    ParameterTable,
    compile_channel,
    keyed,
    match,
    parameter_table,
    plain_query,
    run_plain,
)
from tocsin.spark.local import localised
from tocsin.spark.real_time.joining import Members, matches, sharing_session
from tocsin.spark.real_time.shared import SharedText
from tocsin.spark.records import schema_of
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel

pytestmark = pytest.mark.spark

REPORTS = Dataset(
    "reports",
    (
        Column("id", "INT"),
        Column("kind", "STRING"),
        Column("sev", "INT"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
        Column("at", "TIMESTAMP"),
        Column("price", "DECIMAL(6,2)"),
    ),
)
DATASETS = {"reports": REPORTS}


def compiled(text: str) -> CompiledChannel:
    made = parse_one("CREATE " + text)
    assert isinstance(made, CreateChannel)
    return compile_channel(made, DATASETS)


def frame(spark: SparkSession, records: list[dict[str, Any]]) -> DataFrame:
    lines = [json.dumps({"_position": at, **record}) for at, record in enumerate(records)]
    rows = spark.createDataFrame(pa.table({"line": pa.array(lines, pa.string())}))
    parsed = F.from_json("line", schema_of(REPORTS))
    return rows.select(parsed.alias("r")).select("r.*").cache()


def table(
    spark: SparkSession, channel: CompiledChannel, sets: list[dict[str, Any]]
) -> ParameterTable:
    made = ParameterTable(spark, channel)
    made.replace(1, enumerate(sets, start=1))
    return made


def results(
    spark: SparkSession,
    channel: CompiledChannel,
    made: ParameterTable,
    records: DataFrame,
    window: tuple[datetime, datetime] | None = None,
) -> list[tuple[int, dict[str, Any]]]:
    given = made.current()
    if given is None:
        return []
    views = {"reports": records}
    found = match(spark, channel, given, views, views, window)
    rows = found.orderBy("__backend", "__order", "payload").collect()
    return [(row["__backend"], json.loads(row["payload"])) for row in rows]


SPREAD = [
    {
        "kind": "ab"[n % 2],
        "lo": n % 9,
        "hi": n % 9 + 3,
        "lat": 50 + n / 50,
        "lon": 10.0,
        "km": n / 9,
    }
    for n in range(60)
]
RECORDS = [
    {"id": n, "kind": "ab"[n % 2], "sev": n % 9, "lat": 50 + n / 40, "lon": 10.0} for n in range(40)
]


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("SELECT id FROM NEW reports WHERE kind = :kind", "kind STRING"),
        (
            "SELECT id FROM NEW reports WHERE near(lat, lon, :lat, :lon, :km)",
            "lat DOUBLE, lon DOUBLE, km DOUBLE",
        ),
        (
            "SELECT id FROM NEW reports WHERE near(lat, lon, :lat, :lon, 5)",
            "lat DOUBLE, lon DOUBLE",
        ),
        ("SELECT id FROM NEW reports WHERE sev >= :lo", "lo INT"),
        ("SELECT id FROM NEW reports WHERE :lo <= sev AND sev < :hi", "lo INT, hi INT"),
        ("SELECT id FROM NEW reports WHERE kind > :kind", "kind STRING"),
        (
            "SELECT r.id, s.id AS other FROM NEW reports r, reports s WHERE r.kind = :kind"
            " AND near(r.lat, r.lon, s.lat, s.lon, :km)",
            "kind STRING, km DOUBLE",
        ),
        (
            "SELECT id, sev FROM NEW reports WHERE near(lat, lon, :lat, :lon, :km) UNION ALL"
            " SELECT id, sev FROM NEW reports WHERE :lo <= sev UNION ALL"
            " SELECT max(id) AS id, sev FROM NEW reports WHERE kind > :kind GROUP BY sev",
            "lat DOUBLE, lon DOUBLE, km DOUBLE, lo INT, kind STRING",
        ),
        (
            "SELECT count(*) AS n FROM NEW reports WHERE near(lat, lon, :lat, :lon, :km)",
            "lat DOUBLE, lon DOUBLE, km DOUBLE",
        ),
        (
            "SELECT id, rank() OVER (ORDER BY lat) AS r FROM NEW reports WHERE sev >= :lo",
            "lo INT",
        ),
        (
            "SELECT max(r.id) AS most FROM NEW reports r JOIN reports s ON r.kind = :kind"
            " AND near(r.lat, r.lon, s.lat, s.lon, :km)",
            "kind STRING, km DOUBLE",
        ),
    ],
)
@pytest.mark.parametrize("broadcast", ["10485760", "-1"])
def test_no_nested_loop_over_records_and_parameters(
    spark: SparkSession, query: str, parameters: str, broadcast: str
) -> None:
    channel = compiled("CONTINUOUS CHANNEL c(" + parameters + ") AS " + query)
    names = [each.split()[0] for each in parameters.split(", ")]
    made = table(spark, channel, [{name: each[name] for name in names} for each in SPREAD])
    plan = plan_of(spark, channel, made, broadcast)
    assert "NestedLoop" not in plan
    assert "Cartesian" not in plan
    assert "HashJoin" in plan or "SortMergeJoin" in plan
    made.close()


def plan_of(
    spark: SparkSession, channel: CompiledChannel, made: ParameterTable, broadcast: str
) -> str:
    given = made.current()
    assert given is not None
    views = {"reports": frame(spark, RECORDS)}
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
    try:
        found = match(spark, channel, given, views, views)
        return str(found._jdf.queryExecution().executedPlan().toString())
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(before))


OPENABLE = (
    "CONTINUOUS CHANNEL c(kind STRING, lo INT, lat DOUBLE, lon DOUBLE, km DOUBLE) AS"
    " SELECT id FROM NEW reports"
    " WHERE kind = :kind AND sev >= :lo AND near(lat, lon, :lat, :lon, :km)"
)
PLACE = {"lat", "lon", "km"}


def opened(mask: set[str], n: int) -> dict[str, Any]:
    names = ("kind", "lo", "lat", "lon", "km")
    return {name: dict(ANY) if name in mask else SPREAD[n][name] for name in names}


@pytest.mark.parametrize("broadcast", ["10485760", "-1"])
def test_every_mask_in_use_is_a_hash_join_of_its_own(spark: SparkSession, broadcast: str) -> None:
    channel = compiled(OPENABLE)
    masks: list[set[str]] = [set(), {"kind"}, PLACE, {"lo", *PLACE}, {"kind", *PLACE}]
    made = table(spark, channel, [opened(masks[n % 5], n) for n in range(60)])
    plan = plan_of(spark, channel, made, broadcast)
    assert "NestedLoop" not in plan
    assert "Cartesian" not in plan
    assert plan.count("HashJoin") + plan.count("SortMergeJoin") == len(masks)
    assert len(made.masks()) == len(masks)
    made.close()


def test_with_nothing_open_there_is_one_join(spark: SparkSession) -> None:
    made = table(spark, compiled(OPENABLE), [opened(set(), n) for n in range(60)])
    plan = plan_of(spark, compiled(OPENABLE), made, "10485760")
    assert plan.count("HashJoin") == 1
    assert "Union" not in plan
    made.close()


def test_masks_come_and_go_with_the_sets_that_use_them(spark: SparkSession) -> None:
    channel = compiled(OPENABLE)
    records = frame(spark, RECORDS)
    everything = {"kind", "lo", *PLACE}
    masks: list[set[str]] = [set(), PLACE, {"lo", *PLACE}, everything]
    sets = {n: opened(masks[n % 4], n) for n in range(12)}
    delta = ParameterTable(spark, channel, small_rows=0)
    delta.replace(1, [(n, sets[n]) for n in (0, 1, 4, 5)])
    assert {*delta.masks()} == {frozenset(), frozenset(PLACE)}
    assert delta.current() is not None
    delta.update(2, [(n, sets[n]) for n in (2, 3, 8, 9)], [1, 5])
    delta.update(3, [(1, sets[1])], [2, 9, 4])
    assert {*delta.masks()} == {frozenset(), frozenset(PLACE), frozenset(everything)}
    whole = ParameterTable(spark, channel)
    whole.replace(3, [(n, sets[n]) for n in (0, 1, 3, 8)])
    expected = results(spark, channel, whole, records)
    assert [each for each in expected if each[0] == 3] == [(3, {"id": n}) for n in range(40)]
    assert {backend for backend, _ in expected} == {0, 1, 3}  # nothing is near the last one
    assert results(spark, channel, delta, records) == expected
    delta.update(4, [], [0, 1, 3, 8])
    assert delta.current() is None


def test_who_counts_is_told_once_also_of_nothing(spark: SparkSession) -> None:
    channel = compiled(
        "CONTINUOUS CHANNEL c(lat DOUBLE, km DOUBLE) AS"
        " SELECT count(*) AS n FROM NEW reports WHERE near(lat, lon, :lat, 10, :km)"
    )
    assert dict(channel.describe())["matching"].endswith("grid cells")
    asked = [(50.0, 1.0), (50.0, 6.0), (50.0, -1.0), (-80.0, 6.0), (50.25, 1000.0)]
    made = table(spark, channel, [{"lat": lat, "km": km} for lat, km in asked])
    got = results(spark, channel, made, frame(spark, RECORDS))
    assert got == [(n, {"n": found}) for n, found in enumerate((1, 3, 0, 0, 40), start=1)]


def test_queries_of_a_union_with_the_same_keys_share_a_table(spark: SparkSession) -> None:
    channel = compiled(
        "CONTINUOUS CHANNEL c(kind STRING, lo INT) AS SELECT id FROM NEW reports WHERE kind = :kind"
        " UNION ALL SELECT id FROM NEW reports WHERE sev = :lo"
        " UNION ALL SELECT id FROM NEW reports WHERE sev > :lo"
    )
    given = table(spark, channel, [{"kind": "a", "lo": 1}]).current()
    assert given is not None
    one, two, three = given.by_mask[frozenset()]
    assert one.frame is two.frame
    assert one.frame is not three.frame


def test_results_come_in_the_order_of_their_records(spark: SparkSession) -> None:
    channel = compiled("CONTINUOUS CHANNEL c(k STRING) AS SELECT id FROM NEW reports WHERE kind=:k")
    records = [{"id": 100 - n, "kind": "a", "_position": n * 7} for n in range(30)]
    got = results(spark, channel, table(spark, channel, [{"k": "a"}]), frame(spark, records[::-1]))
    assert [payload["id"] for _, payload in got] == [100 - n for n in range(30)]


def test_order_by_decides_the_order(spark: SparkSession) -> None:
    channel = compiled(
        "CONTINUOUS CHANNEL c(k STRING) AS SELECT id, sev AS s FROM NEW reports WHERE kind = :k"
        " ORDER BY s DESC, 1"
    )
    records = [{"id": n, "kind": "a", "sev": n % 3} for n in range(7)]
    got = results(spark, channel, table(spark, channel, [{"k": "a"}]), frame(spark, records))
    assert [payload["id"] for _, payload in got] == [2, 5, 1, 4, 0, 3, 6]


def test_payload_is_plain_json_in_utc_with_nulls(spark: SparkSession) -> None:
    channel = compiled("CONTINUOUS CHANNEL c() AS SELECT *, window_end() AS until FROM NEW reports")
    records = [{"id": 1, "at": "2026-01-01T10:00:00.000001+02:00", "price": 12.5}]
    until = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    got = results(
        spark, channel, table(spark, channel, [{}]), frame(spark, records), (until, until)
    )
    assert got == [
        (
            1,
            {
                "id": 1,
                "kind": None,
                "sev": None,
                "lat": None,
                "lon": None,
                "at": "2026-01-01T08:00:00.000001Z",
                "price": 12.5,
                "until": "2026-01-02T03:04:05.678901Z",
            },
        )
    ]


def test_every_parameter_type_reaches_spark_as_its_value(spark: SparkSession) -> None:
    types = {
        "a": ("BOOLEAN", True, True),
        "b": ("BIGINT", 2**62 + 1, 2**62 + 1),
        "c": ("DECIMAL(6,2)", "12.50", 12.5),
        "d": ("TIMESTAMP", "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000001Z"),
        "e": ("DATE", "2026-01-31", "2026-01-31"),
        "f": ("STRING", "'; DROP --\\ é\n\"", "'; DROP --\\ é\n\""),
        "g": ("DOUBLE", 0.1, 0.1),
    }
    declared = ", ".join(f"{name} {kind}" for name, (kind, _, _) in types.items())
    shown = ", ".join(f":{name} AS {name}" for name in types)
    query = " ".join(("SELECT", shown, "FROM NEW reports"))
    channel = compiled(f"CONTINUOUS CHANNEL c({declared}) AS {query}")
    made = table(spark, channel, [{name: value for name, (_, value, _) in types.items()}])
    [(_, payload)] = results(spark, channel, made, frame(spark, [{"id": 1}]))
    assert payload == {name: shown for name, (_, _, shown) in types.items()}


@pytest.mark.parametrize(
    "text",
    [
        "c(v INT) AS SELECT id FROM NEW reports WHERE sev >= :v",
        "c(v INT) AS SELECT id FROM NEW reports WHERE near(lat, lon, 50, 10, :v)",
        "c(v INT) AS SELECT id FROM NEW reports WHERE sev = :v",
    ],
)
def test_a_table_refreshed_by_delta_equals_one_built_at_once(
    spark: SparkSession, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = compiled("CONTINUOUS CHANNEL " + text)
    records = frame(spark, RECORDS)
    sets = {n: {"v": n * 7 % 23} for n in range(20)}
    delta = ParameterTable(spark, channel, small_rows=0)
    delta.replace(1, [(n, sets[n]) for n in range(5)])
    assert delta.current() is not None
    delta.update(2, [(n, sets[n]) for n in range(3, 12)], [0, 4, 99])
    assert delta.current() is not None
    delta.update(3, [(0, sets[0]), (12, sets[12])], [11])
    whole = ParameterTable(spark, channel)
    whole.replace(3, [(n, sets[n]) for n in range(13) if n != 11])
    expected = results(spark, channel, whole, records)
    assert expected
    assert results(spark, channel, delta, records) == expected
    assert delta.version == 3
    monkeypatch.setattr(parameter_table, "REBUILD_ROWS", 0)
    delta.update(4, [], [12])
    assert results(spark, channel, delta, records) == [each for each in expected if each[0] != 12]
    delta.update(5, [], list(sets))
    assert delta.current() is None


def views_of(spark: SparkSession) -> list[str]:
    names = (listtable.name for listtable in spark.catalog.listTables("global_temp"))
    return [name for name in names if name.startswith("tocsin")]


def test_frames_of_several_sessions_meet_and_leave_no_view(spark: SparkSession) -> None:
    gc.collect()
    run_plain(spark, plain_query("SELECT 1 AS n"), {})
    before = views_of(spark)
    channel = compiled("CONTINUOUS CHANNEL c(v INT) AS SELECT id FROM NEW reports WHERE sev = :v")
    made = table(spark, channel, [{"v": 1}, {"v": 2}])
    other = spark.newSession()
    got = results(other, channel, made, frame(other, RECORDS))
    assert {backend for backend, _ in got} == {1, 2}
    made.close()
    gc.collect()
    run_plain(spark, plain_query("SELECT 1 AS n"), {})  # the next query takes them away
    assert views_of(spark) == before


def test_channels_that_ask_alike_share_the_keys_of_a_small_dataset(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[DataFrame] = []

    def counting(given: DataFrame) -> DataFrame:
        made.append(given)
        return localised(given)

    monkeypatch.setattr(keyed, "localised", counting)
    one = compiled(
        "CONTINUOUS CHANNEL c(v INT) AS SELECT r.id, s.id AS other FROM NEW reports r, reports s"
        " WHERE r.sev = :v AND near(r.lat, r.lon, s.lat, s.lon, 3)"
    )
    other = compiled(
        "CONTINUOUS CHANNEL c(k STRING) AS SELECT a.id FROM NEW reports a, reports b"
        " WHERE a.kind = :k AND near(b.lat, b.lon, a.lat, a.lon, 3)"
    )
    records = localised(frame(spark, RECORDS))
    for channel, sets in ((one, [{"v": 1}]), (other, [{"k": "a"}]), (one, [{"v": 2}])):
        parameters = table(spark, channel, sets)
        assert results(spark, channel, parameters, records)
    assert len(made) == 1


def test_channels_may_run_at_once(spark: SparkSession) -> None:
    channel = compiled("CONTINUOUS CHANNEL c(v INT) AS SELECT id FROM NEW reports WHERE sev = :v")
    made = table(spark, channel, [{"v": n} for n in range(9)])
    records = frame(spark, RECORDS)
    expected = results(spark, channel, made, records)
    got: list[Any] = []
    threads = [
        threading.Thread(target=lambda: got.append(results(spark, channel, made, records)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [expected] * 4


def test_plain_queries_run_over_stored_views(spark: SparkSession) -> None:
    query = plain_query("SELECT count(*) AS n FROM reports WHERE near(lat, lon, 50, 10, 1)")
    rows = run_plain(spark, query, {"reports": frame(spark, RECORDS)}).collect()
    assert [row["n"] for row in rows] == [1]


BALL = "lat DOUBLE, lon DOUBLE, km DOUBLE"


@pytest.mark.parametrize(
    ("where", "parameters"),
    [
        ("kind = :kind", "kind STRING"),
        ("near(lat, lon, :lat, :lon, :km)", BALL),
        ("near(:lat, :lon, lat, lon, 3) AND kind = :kind", "lat DOUBLE, lon DOUBLE, kind STRING"),
        ("sev BETWEEN :lo AND :hi", "lo INT, hi INT"),
        ("sev % 2 = 0 OR kind = :kind", "kind STRING"),
        ("sev > 3", ""),
    ],
)
def test_records_in_real_time_find_the_same_parameter_sets_by_a_hash_join(
    spark: SparkSession, where: str, parameters: str
) -> None:
    query = f"SELECT id FROM NEW reports WHERE {where}"  # noqa: S608
    channel = compiled(f"CONTINUOUS CHANNEL c({parameters}) AS {query}")
    names = [parameter.name for parameter in channel.channel.parameters]
    sets = [{name: one[name] for name in names} for one in SPREAD]
    records = frame(spark, RECORDS)
    session = sharing_session(spark)
    text = SharedText([Members(session).make(channel, frozenset())])
    stored = [(n, "c", json.dumps(given)) for n, given in enumerate(sets, 1)]
    frames = session.createDataFrame(stored, "id BIGINT, channel STRING, arguments STRING")
    found = matches(session, text, frames, records)
    streamed = found.orderBy("__backend", "__order").collect()
    expected = results(spark, channel, table(spark, channel, sets), records)
    assert [(row["__backend"], json.loads(row["payload"])) for row in streamed] == expected
    assert expected
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan
    assert "NestedLoop" not in plan
    assert "Cartesian" not in plan
