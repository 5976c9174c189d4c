"""The points of one directory: finished ones are never lost, and never mixed with others.

    conditions.json   what all points here share: experiment, settings of each variant
    finished/         what is not yet in the table: one small file for each batch of points
    points.parquet    the table: one row a point; carries the conditions, and is enough for a report
    workloads/        made once for all tasks; removed when nothing is left to do

Knows no Spark and no simulator.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin import durable
from tocsin.errors import Conflict, InvalidInput
from tocsin.lab.spec.plan import Conditions
from tocsin.lab.spec.study import Row
from tocsin.lab.sweeps.tasks import Task

TABLE = "points.parquet"
METADATA = b"tocsin.lab"
CELL = ("kind", "variant", "policy", "seed")  # and the value of the axis: which point it is


class Store:
    """Use as a context: one run at a time in a directory."""

    def __init__(self, directory: Path, conditions: Conditions) -> None:
        self.directory = directory
        self.conditions = conditions
        self._finished = directory / "finished"
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._batch = 0
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._finished.mkdir(parents=True, exist_ok=True)
            self._lock = (self.directory / ".lock").open("a")
        except OSError as error:
            raise InvalidInput(
                f"cannot write to {self.directory}: {error.strerror}",
                field="out",
                hint="name a directory that you may write to",
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise Conflict(
                f"another run is at work in {self.directory}",
                field="out",
                hint="wait for it, or name another directory",
            ) from None
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        assert self._lock is not None
        self._lock.close()

    def _open(self) -> None:
        """Read what is there; refuse a directory of other conditions."""
        kept = self.directory / "conditions.json"
        if kept.exists():
            refuse_other(self.directory, _decoded(kept.read_bytes(), kept), self.conditions)
        elif (self.directory / TABLE).exists():
            refuse_other(self.directory, read_points(self.directory)[1], self.conditions)
        durable.write(kept, msgspec.json.format(msgspec.json.encode(self.conditions)))
        for row in _rows_of_table(self.directory / TABLE):
            self._rows[self._cell(row)] = row
        for file in sorted(self._finished.glob("*.json")):
            for row in _rows_of_batch(file):
                self._rows[self._cell(row)] = row
            self._batch = max(self._batch, int(file.stem) + 1)

    def has(self, task: Task) -> bool:
        """Whether the point is there, made by the code and of the data that are here now."""
        return self.row_of(task) is not None

    def row_of(self, task: Task) -> Row | None:
        row = self._rows.get(self._cell(task.row({})))
        return row if row is not None and row["sources"] == task.sources else None

    def _cell(self, row: Row) -> tuple[Any, ...]:
        return (*(row[name] for name in CELL), row[self.conditions.axis])

    def add(self, rows: list[Row]) -> None:
        """Keep finished points, durably, before anybody is told of them."""
        durable.write(self._finished / f"{self._batch:06d}.json", msgspec.json.encode(rows))
        self._batch += 1
        for row in rows:
            self._rows[self._cell(row)] = row

    def fold(self, current: Iterable[tuple[Any, ...]], order: list[str]) -> int:
        """Write the table and empty `finished`. Points whose code has changed since (their digest
        is not among the `current` ones of their kind and policy) are left out. `order` is that
        of the policies. Gives the number of points."""
        valid = set(current)
        places = {policy: place for place, policy in enumerate(order)}
        variants = list(self.conditions.variants)

        def place(row: Row) -> tuple[Any, ...]:
            policy = places.get(row["policy"], len(places))
            variant = variants.index(row["variant"])
            value = row[self.conditions.axis]
            return row["kind"], variant, policy, row["policy"], value, row["seed"]

        rows = [row for row in self._rows.values() if _code(row) in valid]
        if rows:
            write_points(self.directory, sorted(rows, key=place), self.conditions)
        for file in self._finished.glob("*.json"):
            file.unlink()
        self._rows = {self._cell(row): row for row in rows}
        return len(rows)

    def forget_workloads(self) -> None:
        shutil.rmtree(self.directory / "workloads", ignore_errors=True)

    def codes(self) -> set[tuple[str, str]]:
        """The kinds and policies there are points of."""
        return {(row["kind"], row["policy"]) for row in self._rows.values()}


def write_points(directory: Path, rows: list[Row], conditions: Conditions) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    table = table.replace_schema_metadata({METADATA: msgspec.json.encode(conditions)})
    aside = directory / f".{TABLE}.aside"
    pq.write_table(table, aside)
    durable.sync(aside)
    durable.move(aside, directory / TABLE)


def read_points(directory: Path) -> tuple[pd.DataFrame, Conditions]:
    """The table and its conditions; says what is wrong with it."""
    file = directory / TABLE
    if not directory.is_dir():
        raise InvalidInput(f"there is no directory {directory}", field="directory")
    if not file.exists():
        raise InvalidInput(
            f"{directory} has no {TABLE}", field="directory", hint="tocsin lab run makes it"
        )
    table = _table(file)
    conditions = _decoded((table.schema.metadata or {}).get(METADATA, b""), file)
    wanted = (*CELL, conditions.axis, "sources")
    lacking = [name for name in wanted if name not in table.column_names]
    if lacking:
        raise _broken(file, f"it lacks the column {lacking[0]}")
    if not table.num_rows:
        raise _broken(file, "it has no rows")
    points = table.to_pandas()
    points["policy"] = points["policy"].fillna("")
    return points, conditions


def refuse_other(directory: Path, there: Conditions, here: Conditions) -> None:
    """A directory holds points of one experiment under one set of settings."""
    if there.experiment != here.experiment:
        raise Conflict(
            f"{directory} holds points of the experiment {there.experiment}, not {here.experiment}",
            field="out",
            hint="name another directory with --out",
        )
    if there != here:
        raise Conflict(
            f"{directory} holds points of other settings: {_differences(there, here)}",
            field="out",
            hint="name another directory with --out, or remove this one",
        )


def _code(row: Row) -> tuple[str, str, str]:
    """Of a recording, the part of the digest that is of code."""
    return row["kind"], row["policy"], row["sources"].split("-")[0]


def _rows_of_table(file: Path) -> list[Row]:
    if not file.exists():
        return []
    rows: list[Row] = _table(file).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _rows_of_batch(file: Path) -> list[Row]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Row])
    except (OSError, msgspec.DecodeError) as error:
        raise _broken(file, str(error)) from None


def _table(file: Path) -> pa.Table:
    try:
        return pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise _broken(file, str(error).splitlines()[0]) from None


def _decoded(content: bytes, file: Path) -> Conditions:
    try:
        return msgspec.json.decode(content, type=Conditions)
    except msgspec.DecodeError:
        raise _broken(file, "it does not tell the conditions of its points") from None


def _broken(file: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{file} cannot be read: {why}",
        field="points",
        hint="remove it and run the experiment again",
    )


def _differences(there: Conditions, here: Conditions) -> str:
    differences = []
    if there.quick != here.quick:
        differences.append("a quick look" if there.quick else "a full run")
    for name, mine in here.variants.items():
        theirs = there.variants.get(name, {})
        differences += [
            f"{name}: {key}={theirs.get(key)} there, {value} here"
            for key, value in mine.items()
            if theirs.get(key) != value
        ]
    return "; ".join(dict.fromkeys(differences)) or "another version's"
