"""Stored datasets: Delta tables beside Parquet files with our manifest, in one run.

Both flush the same log in as many pieces, are read as of its end with 10 and with 100 files, and
merge those. What is timed is what the port asks of a medium, with Spark warmed up by the same.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bench.findings import Finding
from tocsin.model import Column, Dataset
from tocsin.settings import Settings
from tocsin.spark.session import build_session
from tocsin.spark.tables import Medium, ParquetMedium, TableLimits, Tables
from tocsin.spark.tables.delta import DeltaMedium
from tocsin.storage.log import PublicationLog, open_log, open_reader
from tocsin.storage.store.store import Store
from tocsin.storage.tables.address import TableAddress
from tocsin.storage.tables.delta import DeltaFiles

FILES = (10, 100)
QUICK_FILES = (10,)
RECORDS = 1000  # of a flush
READS = 10
KINDS = ("delta", "parquet")
DATASET = Dataset("reports", (Column("id", "BIGINT"), Column("kind", "STRING")))

Figures = dict[str, list[float]]  # what was timed → seconds


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        folder = Path(name)
        settings = Settings(data=folder / "data", tables=f"file://{folder}/delta")
        spark = build_session(settings)
        try:
            _measured(spark, folder / "warm-up", 4, lambda text: say(f"warming up, {text}"))
            findings = []
            for files in QUICK_FILES if quick else FILES:
                figures = _measured(spark, folder / str(files), files, say)
                findings += _findings(files, figures)
            return findings
        finally:
            spark.stop()


def _measured(
    spark: SparkSession, folder: Path, files: int, say: Callable[[str], None]
) -> dict[str, Figures]:
    """The media by turns, so that both meet the same machine."""
    log = open_log(folder / "log", segment_bytes=1 << 24)
    with log, Store.open(f"sqlite:///{folder}/store.db") as store:
        media: dict[str, Medium] = {
            "delta": DeltaMedium(
                spark,
                DeltaFiles(TableAddress.parse(f"file://{folder}/delta"), store.id),
                lambda: [DATASET],
            ),
            "parquet": ParquetMedium(spark, folder / "parquet", store.files),
        }
        log.open_dataset(DATASET.name)
        with closing(open_reader(log.address)) as reader:
            limits = TableLimits(compact_files=files, small_tail_bytes=0)
            tables = {name: Tables(spark, reader, medium, limits) for name, medium in media.items()}
            figures = {name: Figures() for name in media}
            for number in range(files):
                say(f"{files} files: flush {number + 1}")
                end = _publish(log, number)
                for name in KINDS:
                    _time(figures[name], "flush", partial(tables[name].flush, DATASET, end))
                    # What is read right behind a flush has files that it does not know yet.
                    _time(figures[name], "first read", partial(_read, tables[name], end))
            for number in range(READS):
                say(f"{files} files: read {number + 1}")
                for name in KINDS:
                    _time(figures[name], "read", partial(_read, tables[name], end))
            for name in KINDS:
                say(f"{files} files: merged on {name}")
                _time(figures[name], "merge", partial(tables[name].compact, DATASET))
                assert tables[name].stored(DATASET, end).count() == files * RECORDS
    shutil.rmtree(folder)
    return figures


def _read(tables: Tables, end: int) -> int:
    return tables.stored(DATASET, end).count()


def _publish(log: PublicationLog, number: int) -> int:
    ids = range(number * RECORDS, (number + 1) * RECORDS)
    lines = [json.dumps({"id": id, "kind": "abc"[id % 3]}).encode() for id in ids]
    return log.append(DATASET.name, lines).result().end


def _time(figures: Figures, name: str, act: Callable[[], object]) -> None:
    began = time.perf_counter()
    act()
    figures.setdefault(name, []).append(time.perf_counter() - began)


def _findings(files: int, figures: dict[str, Figures]) -> list[Finding]:
    return [
        Finding(
            claim=f"{what} with {files} files on Delta",
            unit="ms",
            ours=1000 * statistics.median(figures["delta"][what]),
            baseline=1000 * statistics.median(figures["parquet"][what]),
            baseline_is="Parquet with our manifest",
            lower_is_better=True,
            details={name: figures[name][what] for name in KINDS},
        )
        for what in ("flush", "first read", "read", "merge")
    ]
