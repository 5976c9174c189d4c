"""Traces of page caches: CSV or Parquet, a row an operation, as scripts write them.

    operation,page,size,subscriptions,notification
    publish,a,2,3,
    request,a,2,,1
    superseded,a,2,,
    renewed,a,2,,

`subscriptions` counts for a publication, `notification` (1 or 0) for a request; elsewhere they may
be left empty. What is wrong is told by row and field; rows are counted from 1, without the header.
A recording of a live broker (`tocsin lab trace record`) is read as well: its pages are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.trace.events import EventTrace
from tocsin.lab.trace.reader import MAGIC, read_trace
from tocsin.lab.workloads.pages.operations import (
    BROWSE,
    NOTIFIED,
    PUBLISH,
    RENEWED,
    SUPERSEDED,
    Operations,
)
from tocsin.protocol.trace import JOURNAL_MARK, OPEN, OUTDATED, PAGE, PARQUET_KEY

COLUMNS = ("operation", "page", "size", "subscriptions", "notification")
KINDS = {"publish": PUBLISH, "request": BROWSE, "superseded": SUPERSEDED, "renewed": RENEWED}
MOST_BYTES = 2**53  # beyond it, a value is not exact
MOST_SUBSCRIPTIONS = 2**31 - 1
MOST_ROWS = 2**30 - 2  # twice a row's number is a time


@dataclass(frozen=True, slots=True)
class PageTrace:
    operations: Operations
    names: list[str]  # of pages, by their numbers


def read_page_trace(file: Path) -> PageTrace:
    table = _recorded(file) if _is_recording(file) else _table(file)
    operation = table["operation"].astype("string").str.strip()
    known = operation.isin(list(KINDS)).fillna(False).to_numpy(bool)
    _refuse(~known, "operation", operation, f"one of {', '.join(KINDS)}")
    kind: NDArray[np.uint8] = np.array(operation.map(KINDS), np.uint8)
    page = table["page"].astype("string").str.strip().fillna("")
    blank = page.str.contains(r"^$|\s", regex=True).to_numpy(bool)
    _refuse(blank, "page", page, "a name without blanks")
    size = _numbers(table, "size", np.ones(len(table), np.bool_), 1, MOST_BYTES)
    published = kind == PUBLISH
    subscriptions = _numbers(table, "subscriptions", published, 0, MOST_SUBSCRIPTIONS)
    requested = kind == BROWSE
    notified = _numbers(table, "notification", requested, 0, 1)
    kind[requested & (notified == 1)] = NOTIFIED
    numbers, names = pd.factorize(page)
    return PageTrace(
        Operations(
            kind,
            numbers.astype(np.int32),
            size,
            np.where(published, subscriptions, 0).astype(np.int32),
            len(names),
        ),
        [str(name) for name in names],
    )


def write_page_trace(operations: Operations, file: Path) -> None:
    """A file that `read_page_trace` reads; its pages are called by their numbers."""
    words = np.empty(RENEWED + 1, object)
    for name, kind in KINDS.items():
        words[kind] = name
    words[NOTIFIED] = words[BROWSE]
    table = pd.DataFrame(
        {
            "operation": words[operations.kind],
            "page": operations.page.astype(str),
            "size": operations.size_bytes,
            "subscriptions": operations.subscriptions,
            "notification": (operations.kind == NOTIFIED).astype(np.int8),
        }
    )
    try:
        if file.suffix == ".parquet":
            table.to_parquet(file, index=False)
        else:
            table.to_csv(file, index=False)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}", field="file") from None


def _is_recording(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            mark = opened.read(len(MAGIC))
        if mark == MAGIC:
            return PARQUET_KEY in (pq.read_metadata(file).metadata or {})
        return mark == JOURNAL_MARK
    except (OSError, pa.ArrowException):
        return False  # whoever reads it says what is wrong


def _recorded(file: Path) -> pd.DataFrame:
    """What a broker's page cache decided upon."""
    trace = read_trace(file)
    events = None
    if isinstance(trace, EventTrace):
        events = trace.records[np.isin(trace.records["kind"], (PAGE, OPEN, OUTDATED))]
    if events is None or not len(events):
        raise InvalidInput(
            f"{file} tells nothing of pages",
            field="trace",
            hint="at that broker no attachments were mentioned or opened meanwhile",
        )
    kind = events["kind"]
    words = np.select(
        [kind == PAGE, kind == OPEN, events["after"] == 1],
        ["publish", "request", "renewed"],
        "superseded",
    )
    return pd.DataFrame(
        {
            "operation": words,
            "page": events["position"].astype(str),
            "size": np.maximum(events["size_bytes"], 1),  # as the cache counts empty ones
            "subscriptions": np.where(kind == PAGE, events["after"], 0),
            "notification": np.where(kind == OPEN, events["after"], 0),
        }
    )


def _table(file: Path) -> pd.DataFrame:
    try:
        if file.suffix == ".parquet":
            table = pd.read_parquet(file)
        else:
            table = pd.read_csv(file, dtype="string", skipinitialspace=True)
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {file}", field="trace") from None
    except pd.errors.EmptyDataError:
        raise InvalidInput(f"{file} is empty", field="trace", hint=_HEADER) from None
    except (OSError, ValueError) as error:  # what pandas and pyarrow say of broken files, too
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "it is broken"
        raise InvalidInput(f"cannot read {file}: {reason}", field="trace", hint=_HEADER) from None
    table.columns = [str(name).strip() for name in table.columns]
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise InvalidInput(
            f"{file} has no column {missing[0]!r}, only {', '.join(table.columns)}",
            field=missing[0],
            hint=_HEADER,
        )
    if len(table) > MOST_ROWS:
        raise InvalidInput(f"{file} has {len(table)} rows", field="trace", hint=f"≤ {MOST_ROWS}")
    return table


_HEADER = f"the columns are {','.join(COLUMNS)}"


def _numbers(
    table: pd.DataFrame, name: str, counts: NDArray[np.bool_], least: int, most: int
) -> NDArray[np.int64]:
    """Whole numbers of a column, where they count; elsewhere anything may stand, or nothing."""
    column = table[name]
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    fits = (values >= least) & (values <= most) & (values == np.floor(values))
    span = f"a whole number from {least}" + ("" if most > 1 else f" to {most}")
    _refuse(counts & ~fits, name, column, span)
    return np.where(fits, values, 0).astype(np.int64)


def _refuse(wrong: NDArray[np.bool_], name: str, column: Any, hint: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        value = column.iloc[row]
        shown = "nothing" if pd.isna(value) or value == "" else repr(str(value))
        raise InvalidInput(f"row {row + 1}: {name} is {shown}", field=name, hint=hint)
