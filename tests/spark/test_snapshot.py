"""A snapshot that moved on from an older one equals one that was read from scratch."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from tocsin.model import Column, Dataset
from tocsin.spark import snapshot
from tocsin.spark.snapshot import Snapshots
from tocsin.spark.tables import ParquetMedium, Tables
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.store.store import Store

pytestmark = pytest.mark.spark

USERS = Dataset(
    name="users",
    columns=(Column("id", "STRING"), Column("n", "INT")),
    primary_key=("id",),
    retain_s=40.0,
)
DATASETS = {"users": USERS}


def contents(frame: DataFrame) -> set[tuple[Any, ...]]:
    rows = [(row["id"], row["n"]) for row in frame.collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.mark.parametrize(
    ("log_address", "small_bytes", "retain_s"),
    [
        ("segments", 0, 40.0),
        ("segments", 4_000_000, 40.0),
        ("segments", 4_000_000, None),
        ("kafka", 0, 40.0),
    ],
    indirect=["log_address"],
)
def test_stored_views_follow_the_log_through_flushes_and_retention(
    spark: SparkSession,
    tmp_path: Path,
    log_address: str,
    monkeypatch: pytest.MonkeyPatch,
    small_bytes: int,
    retain_s: float | None,
) -> None:
    monkeypatch.setattr(snapshot, "SMALL_BYTES", small_bytes)
    users = msgspec.structs.replace(USERS, retain_s=retain_s)
    now = [1_000_000.0]
    chance = random.Random(7)
    with (
        Store.open(f"sqlite:///{tmp_path}/store.db") as store,
        open_log(log_address, segment_bytes=500, clock=lambda: now[0]) as log,
    ):
        log.open_dataset("users")
        tables = Tables(
            spark,
            open_reader(log.address),
            ParquetMedium(spark, tmp_path / "datasets", store.files),
        )
        snapshots = Snapshots(tables, {"users": users}.__getitem__)
        newest: dict[str, tuple[int, float]] = {}
        start = 0
        for step in range(8):
            now[0] += 9
            records: list[dict[str, Any]] = [
                {"id": f"u{chance.randrange(6)}", "n": 10 * step + n} for n in range(3)
            ]
            log.append("users", [json.dumps(record).encode() for record in records]).result()
            newest |= {record["id"]: (record["n"], now[0]) for record in records}
            if step % 3 == 2:
                tables.flush(users, log.ends()["users"])
            seen = snapshots.take(log.cut)
            cut = seen.cut
            oldest_at = 0.0 if retain_s is None else cut.at_us / 1e6 - retain_s
            kept = {(k, n) for k, (n, at) in newest.items() if at > oldest_at}
            assert contents(seen.stored("users")) == kept
            assert contents(seen.stored("users")) == kept
            assert contents(seen.window("users", start)) == {(o["id"], o["n"]) for o in records}
            start = cut.ends["users"]


def test_dataset_made_again_does_not_show_what_the_old_one_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    datasets = {"users": msgspec.structs.replace(USERS, retain_s=None, created_at=1.0)}
    with (
        Store.open(f"sqlite:///{tmp_path}/store.db") as store,
        open_log(tmp_path / "log", segment_bytes=500) as log,
    ):
        log.create_dataset("users")
        tables = Tables(
            spark,
            open_reader(log.address),
            ParquetMedium(spark, tmp_path / "datasets", store.files),
        )
        snapshots = Snapshots(tables, datasets.__getitem__)
        log.append("users", [b'{"id":"a","n":1}']).result()
        assert contents(snapshots.take(log.cut).stored("users")) == {("a", 1)}
        log.create_dataset("users")
        datasets["users"] = msgspec.structs.replace(datasets["users"], created_at=2.0)
        log.append("users", [b'{"id":"b","n":2}']).result()
        assert contents(snapshots.take(log.cut).stored("users")) == {("b", 2)}
