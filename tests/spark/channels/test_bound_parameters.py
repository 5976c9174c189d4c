"""Bound parameters and `current_subscriber()` in queries: equalities of the join, never opened."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tocsin.errors import InvalidInput, StatementError
from tocsin.model import ANY, SUBSCRIBER, Column, Dataset
from tocsin.spark.adhoc import answer
from tocsin.spark.channels import (
    CompiledChannel,
    ParameterTable,
    Trials,
    analyse,
    compile_channel,
    match,
    settle,
)
from tocsin.spark.records import schema_of
from tocsin.sql import CreateChannel, bind_arguments, parse_one

NOTES = Dataset("notes", (Column("id", "INT"), Column("owner", "STRING"), Column("kind", "STRING")))
DATASETS = {"notes": NOTES}
ME = "me STRING BOUND TO CLAIM 'sub', k STRING, r STRING REQUIRED"
RECORDS = [
    {"id": n, "owner": owner, "kind": kind}
    for n, (owner, kind) in enumerate(
        (owner, kind)
        for owner in ("alice", "bob", "Alice", "alice ", "' OR '1'='1", ":_subscriber", None)
        for kind in ("a", "b")
    )
]


def compiled(query: str, parameters: str = "") -> CompiledChannel:
    used = ", ".join(part for part in ME.split(", ") if f":{part.split()[0]}" in query)
    text = f"CREATE CONTINUOUS CHANNEL c({parameters or used}) AS {query}"
    made = parse_one(text)
    assert isinstance(made, CreateChannel)
    return compile_channel(made, DATASETS)


def frame(spark: SparkSession) -> DataFrame:
    lines = [json.dumps({"_position": at, **record}) for at, record in enumerate(RECORDS)]
    rows = spark.createDataFrame(pa.table({"line": pa.array(lines, pa.string())}))
    return rows.select(F.from_json("line", schema_of(NOTES)).alias("r")).select("r.*")


def heard(
    spark: SparkSession, channel: CompiledChannel, given: dict[str, Any], *subscribers: str
) -> dict[str, list[dict[str, Any]]]:
    """What each subscriber hears in one run."""
    sets = {
        n: settle(channel.channel, bind_arguments(channel.channel, given, {"sub": subscriber}))
        for n, subscriber in enumerate(subscribers)
    }
    assert Trials(channel).first_refused(spark, list(sets.values())) is None
    table = ParameterTable(spark, channel)
    table.replace(1, sets.items())
    parameters = table.current()
    assert parameters is not None
    views = {"notes": frame(spark)}
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in subscribers}
    for row in match(spark, channel, parameters, views, views, None).collect():
        results[subscribers[row["__backend"]]].append(json.loads(row["payload"]))
    return results


OWNERS = sorted({str(record["owner"]) for record in RECORDS if record["owner"]})
WAYS = {
    "bound": "SELECT n.id, n.owner FROM NEW notes n WHERE n.owner = :me",
    "the subscriber": "SELECT n.id, n.owner FROM NEW notes n WHERE n.owner = current_subscriber()",
    "on": "SELECT n.id, n.owner FROM NEW notes n JOIN NEW notes m"
    " ON m.id = n.id AND n.owner = CURRENT_SUBSCRIBER()",
    "a subquery": "SELECT n.id, n.owner FROM NEW notes n WHERE n.id IN"
    " (SELECT m.id FROM notes m WHERE m.owner = current_subscriber())",
    "a derived table": "SELECT d.id, d.owner FROM"
    " (SELECT n.id, n.owner FROM NEW notes n WHERE n.owner = current_subscriber()) d",
}


@pytest.mark.parametrize("query", WAYS.values(), ids=WAYS.keys())
@pytest.mark.spark
def test_each_subscriber_hears_of_their_own_alone(spark: SparkSession, query: str) -> None:
    channel = compiled(query)
    analyse(spark, channel, DATASETS)
    results = heard(spark, channel, {}, *OWNERS, "nobody")
    assert results.pop("nobody") == []
    for owner, theirs in results.items():
        assert [result["owner"] for result in theirs] == [owner, owner]


@pytest.mark.parametrize("query", [WAYS["bound"], WAYS["the subscriber"]])
def test_the_binding_is_an_equality_of_the_join(query: str) -> None:
    (part,) = compiled(query).parts
    assert (part.form, part.strategy) == ("flat", "hash join")
    assert part.why == "an equality links records and parameters"


@pytest.mark.spark
def test_the_subscriber_may_be_shown(spark: SparkSession) -> None:
    channel = compiled("SELECT n.id, current_subscriber() AS who FROM NEW notes n WHERE n.id = 1")
    columns = analyse(spark, channel, DATASETS)
    assert columns == [Column("id", "INT"), Column("who", "STRING")]
    results = heard(spark, channel, {}, "alice", "bob")
    assert results == {name: [{"id": 1, "who": name}] for name in ("alice", "bob")}
    grouped = compiled(
        "SELECT current_subscriber() AS who, count(*) AS n FROM NEW notes n"
        " WHERE n.owner = current_subscriber() GROUP BY n.kind"
    )
    counted = heard(spark, grouped, {}, "alice", "bob")
    assert counted == {name: [{"who": name, "n": 1}] * 2 for name in ("alice", "bob")}


def test_the_subscriber_becomes_a_parameter_that_nobody_declares() -> None:
    channel = compiled(WAYS["the subscriber"]).channel
    assert channel.parameters == (SUBSCRIBER,)
    assert channel.given == ()
    again = compile_channel(channel, DATASETS)  # as it comes from the catalog
    assert again.channel == channel
    with pytest.raises(StatementError, match="there is no parameter :_subscriber"):
        compiled("SELECT n.id FROM NEW notes n WHERE n.owner = :_subscriber")
    with pytest.raises(StatementError, match="takes no arguments"):
        compiled("SELECT n.id FROM NEW notes n WHERE n.owner = current_subscriber('bob')")


@pytest.mark.parametrize(
    ("query", "tied"),
    [
        ("WHERE concat(:k, :me) = concat(n.kind, n.owner)", "me"),
        ("WHERE n.owner = :me AND n.kind || :me = :k || n.owner", "me"),
        ("WHERE n.kind || n.owner = :k || current_subscriber()", "current_subscriber()"),
        ("JOIN notes m ON m.owner = :me || :k", "me"),
        ("WHERE n.owner BETWEEN :me AND :k AND n.owner IN (:me, :k)", "me"),
        ("WHERE n.owner = :r || :k", "r"),
    ],
)
def test_no_open_parameter_takes_a_bound_one_along(query: str, tied: str) -> None:
    """The condition would fall away, and with it what keeps others' records out."""
    channel = compiled(" ".join(("SELECT n.id FROM NEW notes n", query))).channel
    given = {"k": dict(ANY)} | ({"r": "x"} if ":r" in query else {})
    arguments = bind_arguments(channel, given, {"sub": "alice"})
    with pytest.raises(InvalidInput, match="'k' cannot be left open") as caught:
        settle(channel, arguments)
    assert f"in one condition with {tied}, which cannot be left open" in caught.value.message


@pytest.mark.spark
def test_other_parameters_may_be_open_and_the_binding_stays(spark: SparkSession) -> None:
    channel = compiled(
        "SELECT n.id, n.owner FROM NEW notes n WHERE n.owner = :me AND n.kind = :k"
        " UNION ALL"
        " SELECT n.id, n.owner FROM NEW notes n WHERE n.kind = :k AND n.owner = :me"
    )
    results = heard(spark, channel, {"k": dict(ANY)}, "alice", "bob")
    for owner, theirs in results.items():
        assert [result["owner"] for result in theirs] == [owner] * 4


def test_a_description_says_what_is_bound_and_what_is_required() -> None:
    channel = compiled(
        "SELECT n.id, current_subscriber() AS who FROM NEW notes n"
        " WHERE n.owner = :me AND n.kind = :k AND n.id <> length(:r)"
    )
    rows = channel.describe()
    assert ("bound", "me: the claim 'sub' of the subscriber's token") in rows
    assert ("bound", "current_subscriber(): the claim 'sub' of the subscriber's token") in rows
    assert ("may be open", "k") in rows
    assert ("must be given", "r: it is REQUIRED") in rows


def ask(spark: SparkSession, text: str, subscriber: str) -> list[list[Any]]:
    return answer(spark, text, lambda _: frame(spark), limit_s=60, subscriber=subscriber).rows


@pytest.mark.spark
def test_an_ad_hoc_query_takes_the_asker_as_data(spark: SparkSession) -> None:
    for subscriber in OWNERS:
        rows = ask(spark, "SELECT owner FROM notes WHERE owner = current_subscriber()", subscriber)
        assert rows == [[subscriber], [subscriber]]
    nasty = "'; DROP TABLE x; -- \\' :a"
    assert ask(spark, "SELECT Current_Subscriber() AS who", nasty) == [[nasty]]
