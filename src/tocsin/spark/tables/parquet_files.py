"""The Parquet files under stored datasets: write one whole, find strays.

A file is written aside, made durable and renamed, so that a crash leaves either nothing or a whole
file that no manifest knows; `strays` finds those, by the owner's id in their names: a file of
somebody else is never one. Knows nothing of the manifest's storage.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tocsin import durable
from tocsin.protocol.columns import RECEIVED_AT
from tocsin.storage.store.data_file import DataFile

STAGING = ".staging-"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_file(
    records: DataFrame,
    directory: Path,
    dataset: str,
    first_position: int,
    end_position: int,
    *,
    owner: str,
) -> DataFile:
    """Write all records into one file, durable when this returns, but in no manifest yet."""
    folder = directory / dataset
    durable.make_directory(folder)
    token = f"{_sign(owner)}-{uuid.uuid4().hex[:12]}"
    staging = folder / f"{STAGING}{token}"
    target = folder / f"{first_position:020d}-{end_position:020d}-{token}.parquet"
    try:
        records.coalesce(1).write.parquet(str(staging))
        (part,) = staging.glob("part-*.parquet")
        durable.sync(part)
        durable.move(part, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    rows, max_received_us = _measure(target)
    return DataFile(
        path=str(target.relative_to(directory)),
        first_position=first_position,
        end_position=end_position,
        rows=rows,
        size_bytes=target.stat().st_size,
        max_received_us=max_received_us,
    )


def strays(directory: Path, owner: str, known: Iterable[str], before: float) -> Iterator[Path]:
    """Files and staging folders of the owner that its manifest does not know and nobody touched
    since `before`."""
    expected = {directory / path for path in known}
    sign = re.escape(_sign(owner))
    made_by_owner = re.compile(
        rf"(?:{re.escape(STAGING)}|\d{{20}}-\d{{20}}-){sign}-[0-9a-f]{{12}}(?:\.parquet)?"
    )
    for path in directory.glob("*/*"):
        if path in expected or not made_by_owner.fullmatch(path.name):
            continue
        if path.stat().st_mtime < before:
            yield path


def _sign(owner: str) -> str:
    return owner[:12]


def delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _measure(path: Path) -> tuple[int, int]:
    """Rows and newest time of a file, from its footer alone."""
    footer = pq.ParquetFile(path).metadata
    newest = 0
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for index in range(row_group.num_columns):
            column = row_group.column(index)
            if column.path_in_schema == RECEIVED_AT and row_group.num_rows:
                newest = max(newest, (column.statistics.max - _EPOCH) // timedelta(microseconds=1))
    return footer.num_rows, newest
