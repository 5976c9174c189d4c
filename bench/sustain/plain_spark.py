"""The baseline: the same join as a plain Structured Streaming job, in a Java of its own.

    python -m bench.sustain.plain_spark '{…}'

It has our session settings, reads the same records (JSON files as they come, or a topic), joins
them with a broadcast table of the same parameter sets, and bulk-writes (backend, payload) to a
table of the same kind of database in one transaction for each batch. It checks and keeps no
records, gives no positions, remembers no progress but Spark's own, and tells nobody. A record has
come when its match is committed.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.control import answer
from bench.sustain.application import follow_orders
from bench.sustain.arrivals import Arrivals
from bench.sustain.shapes import SHAPES, Shape
from tocsin.settings import Settings
from tocsin.spark.channels import near
from tocsin.spark.session import build_session
from tocsin.storage.log.kafka import KafkaAddress, is_kafka

TABLE = "CREATE TABLE matches (backend BIGINT NOT NULL, payload TEXT NOT NULL)"
PARAMETERS = "parameters"
RECORDS = "records"

Write = Callable[[pa.Table], None]


class Job(Struct):
    """What to run, and where."""

    settings: Settings
    shape: str
    sets: int
    source: str
    """A directory of JSON lines, or a topic of the settings' Kafka."""


def records(spark: SparkSession, job: Job) -> DataFrame:
    shape = SHAPES[job.shape]
    schema = "number BIGINT, due_us BIGINT, message STRING, " + ", ".join(
        f"{name} {kind}" for name, kind in shape.columns.items()
    )
    if not is_kafka(job.settings.log):
        # A directory in which files pile up is listed ever more slowly.
        files = spark.readStream.schema(schema).option("cleanSource", "delete")
        return files.json(job.source)
    kafka = {f"kafka.{k}": v for k, v in KafkaAddress.parse(job.settings.log).java().items()}
    messages = spark.readStream.format("kafka").options(**kafka)
    lines = messages.option("subscribe", job.source).option("startingOffsets", "earliest").load()
    parsed = lines.select(F.from_json(F.col("value").cast("string"), schema).alias("record"))
    return parsed.select("record.*")


def parameters(spark: SparkSession, shape: Shape, sets: int) -> DataFrame:
    """The table of parameter sets, with what the join needs computed once."""
    rows = pa.Table.from_pylist(
        [{"backend": number, **given} for number, given in enumerate(shape.sets(sets), 1)]
    )
    frame = spark.createDataFrame(rows)
    if shape.name == "near":
        level = near.level("km")
        frame = frame.selectExpr(
            "*", f"EXPLODE({near.cover('lat', 'lon', 'km', level)}) AS cell", f"{level} AS level"
        )
    frame = frame.cache()
    frame.count()
    return frame


def joined(spark: SparkSession, stream: DataFrame, shape: Shape, sets: int) -> DataFrame:
    """Matches as (backend, payload), and what is measured."""
    table = parameters(spark, shape, sets)
    if shape.name == "near":
        levels = sorted(row.level for row in table.select("level").distinct().collect())
        keys = near.cells_on("lat", "lon", f"ARRAY({', '.join(map(str, levels))})")
        stream = stream.selectExpr("*", f"EXPLODE({keys}) AS cell")
        exact = near.exact("r.lat", "r.lon", "p.lat", "p.lon", "p.km")
        condition = F.expr(f"r.cell = p.cell AND {exact}")
    else:
        condition = F.expr("r.kind = p.kind")
    matches = stream.alias("r").join(F.broadcast(table.alias("p")), condition, "inner")
    return matches.selectExpr(
        "p.backend",
        "to_json(named_struct('number', number, 'due_us', due_us, 'message', message)) AS payload",
        "number",
        "due_us",
    )


def into_sqlite(file: Path) -> Write:
    database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")  # as our store
    database.execute(TABLE)

    def write(matches: pa.Table) -> None:
        rows = zip(matches["backend"].to_pylist(), matches["payload"].to_pylist(), strict=True)
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO matches VALUES (?, ?)", rows)
        database.execute("COMMIT")

    return write


def into_postgresql(address: str) -> Write:
    import psycopg

    database = psycopg.connect(address.replace("+psycopg", ""), autocommit=True)
    database.execute(TABLE)

    def write(matches: pa.Table) -> None:
        backends = pc.cast(matches["backend"], pa.string())
        payloads = pc.replace_substring(matches["payload"], "\\", "\\\\")
        lines = pc.binary_join_element_wise(backends, payloads, "\t").to_pylist()
        with database.cursor().copy("COPY matches FROM STDIN") as copy:
            copy.write("\n".join([*lines, ""]))

    return write


def run(job: Job, arrivals: Arrivals) -> None:
    """Start the query; it ends with this process."""
    spark = build_session(job.settings, app_name="plain")
    store, folder = job.settings.store, job.settings.data
    write = into_postgresql(store) if store else into_sqlite(folder / "plain.db")

    def take(batch: DataFrame, _: int) -> None:
        matches = batch.toArrow()
        if matches.num_rows:
            write(matches)
            arrivals.came_all(_numbers(matches, "number"), _numbers(matches, "due_us"))

    matches = joined(spark, records(spark, job), SHAPES[job.shape], job.sets)
    writer = matches.writeStream.foreachBatch(take)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _numbers(matches: pa.Table, column: str) -> Sequence[int]:
    numbers: Sequence[int] = matches[column].to_numpy()
    return numbers


async def main(job: Job) -> None:
    arrivals = Arrivals()
    await asyncio.to_thread(run, job, arrivals)
    answer(ready=True)
    await follow_orders(arrivals)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    asyncio.run(
        main(msgspec.convert(given, Job, strict=False, dec_hook=lambda kind, text: kind(text)))
    )
