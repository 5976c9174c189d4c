"""Channels over datasets with attachments: Spark carries what is said of them, and brokers are told
in which fields of the results they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tocsin.model import Channel, Column, Dataset
from tocsin.spark.runner import Runner
from tocsin.spark.snapshot import Snapshots
from tocsin.spark.tables import ParquetMedium, Tables
from tocsin.spark.trial import Ask
from tocsin.spark.window import Window
from tocsin.sql import CreateChannel, parse_one
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.store.progress import Progress
from tocsin.storage.store.store import Store

pytestmark = pytest.mark.spark

REPORTS = Dataset(
    "reports",
    (Column("key", "INT"), Column("kind", "STRING"), Column("photo", "ATTACHMENT")),
    primary_key=("key",),
)
PLAIN = Dataset("plain", (Column("a", "STRUCT<id:STRING,size:BIGINT,type:STRING,name:STRING>"),))
DATASETS = {one.name: one for one in (REPORTS, PLAIN)}
PHOTO = {"id": "0" * 64, "size": 5, "type": "image/png", "name": "a.png"}


def compiled(runner: Runner, query: str) -> Channel:
    asked = parse_one(f"CREATE REPETITIVE CHANNEL c(kind STRING) EVERY INTERVAL 1 HOUR AS {query}")
    assert isinstance(asked, CreateChannel)
    return runner.compile(asked, DATASETS).channel


def test_a_channel_knows_the_attachments_in_its_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        runner = Runner(spark, store, on_commit=lambda *_: None, bury=lambda *_: None)
        where = "FROM reports r WHERE r.kind = :kind"
        whole = compiled(runner, f"SELECT r.key, r.photo AS picture {where}")
        assert (whole.attachments, whole.keys) == (("picture",), ("key",))
        keyless = compiled(runner, f"SELECT r.photo {where}")
        assert (keyless.attachments, keyless.keys) == (("photo",), ())
        said = compiled(runner, f"SELECT r.key, r.photo.id AS id, r.photo.size AS size {where}")
        assert said.attachments == said.keys == ()
        other = compiled(runner, "SELECT p.a FROM plain p WHERE p.a.id = :kind")
        assert other.attachments == ()


def test_results_carry_what_records_say_from_log_and_parquet(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = open_log(tmp_path / "log", segment_bytes=10_000)
    log.open_dataset("reports")
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        store.catalog.create_dataset(REPORTS)
        reader = open_reader(log.address)
        tables = Tables(spark, reader, ParquetMedium(spark, tmp_path / "datasets", store.files))
        snapshots = Snapshots(tables, DATASETS.__getitem__)
        runner = Runner(spark, store, on_commit=lambda *_: None, bury=lambda *_: None)
        asked = parse_one(
            "CREATE REPETITIVE CHANNEL c(kind STRING) EVERY INTERVAL 1 HOUR AS"
            " SELECT r.key, r.photo FROM reports r WHERE r.kind = :kind ORDER BY r.key"
        )
        assert isinstance(asked, CreateChannel)
        made = runner.compile(asked, DATASETS)
        store.catalog.create_channel(made.channel)
        runner.prepare(made.channel, made)
        subscription, _ = store.subscriptions.subscribe("ann", "c", {"kind": "x"}, None)
        nameless = {name: value for name, value in PHOTO.items() if name != "name"}
        for key, photo in ((1, PHOTO), (2, nameless), (3, None)):
            record = {"key": key, "kind": "x"} | ({"photo": photo} if photo else {})
            log.append("reports", [json.dumps(record).encode()]).result()
            if key == 1:
                tables.flush(REPORTS, log.ends()["reports"])
        seen = snapshots.take(log.cut)
        window = Window(runner.progress(made.channel), Progress({}, seen.cut.at_us))
        runner.run("c", Ask(window, seen, 60.0))
        found = store.results.read(subscription.backend.id, 0, 100, 100).results
        told = sorted((json.loads(one.payload) for one in found), key=lambda one: one["key"])
        assert told[0] == {"key": 1, "photo": PHOTO}
        assert told[1] == {"key": 2, "photo": nameless | {"name": None}}
        assert told[2] == {"key": 3, "photo": None}
        reader.close()
    log.close()
