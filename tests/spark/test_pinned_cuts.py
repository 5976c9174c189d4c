"""Compaction under a running query: users who move, tiny files, merged all the time; every snapshot
shows each user once, where they were at its cut, for as long as somebody holds it."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.table_media import MEDIA
from tocsin.model import Column, Dataset
from tocsin.spark import snapshot as snapshot_module
from tocsin.spark.snapshot import Snapshot, Snapshots
from tocsin.spark.tables import TableLimits, Tables
from tocsin.storage.log import open_log, open_reader

pytestmark = pytest.mark.spark

USERS = Dataset(
    name="users", columns=(Column("id", "STRING"), Column("place", "INT")), primary_key=("id",)
)


def places(seen: Snapshot) -> dict[str, int]:
    rows = seen.stored("users").collect()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["place"] for row in rows}


@pytest.mark.parametrize(
    ("on", "small_bytes", "seed"), [("parquet", 0, 1), ("parquet", 4_000_000, 2), ("delta", 0, 3)]
)
def test_a_cut_that_is_still_read_loses_no_row_to_compaction(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    on: str,
    small_bytes: int,
    seed: int,
) -> None:
    monkeypatch.setattr(snapshot_module, "SMALL_BYTES", small_bytes)
    chance = random.Random(seed)
    truth: dict[str, int] = {}
    held: list[tuple[Snapshot, dict[str, int]]] = []
    merged = 0
    with open_log(tmp_path / "log", segment_bytes=300) as log:
        log.open_dataset("users")
        reader = open_reader(log.address)
        tables = Tables(
            spark,
            reader,
            MEDIA[on](spark, tmp_path / "datasets", time.time, lambda: [USERS]).open(),
            TableLimits(compact_files=2),
        )
        snapshots = Snapshots(tables, {"users": USERS}.__getitem__)
        for step in range(12):
            moves = {f"u{chance.randrange(5)}": 100 * step + n for n in range(3)}
            lines = [json.dumps({"id": user, "place": at}).encode() for user, at in moves.items()]
            log.append("users", lines).result()
            truth |= moves
            held.append((snapshots.take(log.cut), dict(truth)))
            log.roll("users")
            tables.flush(USERS, log.ends()["users"])
            merged += tables.compact(USERS, horizon=snapshots.horizon("users"))
            tables.sweep(grace_s=0, pinned_us=snapshots.oldest_us())
            if chance.random() < 0.6:
                seen, then = held.pop(chance.randrange(len(held)))
                assert places(seen) == then
                del seen
        assert merged
        while held:
            seen, then = held.pop()
            assert places(seen) == then
        del seen
        assert snapshots.horizon("users") is None
        reader.close()
