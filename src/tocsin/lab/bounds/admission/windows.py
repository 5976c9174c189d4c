"""Deliveries by the read at which their consumer notices them: a *window* is what one consumer
reads at once, oldest first. Within a window the log's retention decides what is still there.

Windows do not depend on what is admitted, if the broker takes as long for a record that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin.errors import SettingError
from tocsin.lab.simulators.consumer_logs import Logs
from tocsin.lab.simulators.consumer_logs.simulator import read_times
from tocsin.lab.workloads.offers import Offers


@dataclass(frozen=True, eq=False)
class Windows:
    first: NDArray[np.int64]  # of each window, and one more: where its entries begin
    window: NDArray[np.int64]  # of each entry
    record: NDArray[np.int64]  # of each entry
    size_bytes: NDArray[np.int64]  # of each entry, if it is admitted
    first_of: NDArray[np.int64]  # of each record, and one more: where its entries begin in …
    entry_of: NDArray[np.int64]  # … the places of entries, record by record
    retention_bytes: int
    reference_bytes: int  # what an entry takes that is not admitted

    @property
    def records(self) -> int:
        return len(self.first_of) - 1


def windows_of(offers: Offers, logs: Logs) -> Windows:
    refuse_dependent(logs)
    record = np.repeat(np.arange(len(offers)), offers.waiting)
    begin = np.cumsum(offers.waiting) - offers.waiting
    place = np.arange(len(record)) - begin[record]
    consumer = offers.consumer[offers.first[offers.content[record]] + place]
    reads_at = read_times(offers, logs)
    order = np.lexsort((record, reads_at, consumer))
    record, consumer, reads_at = record[order], consumer[order], reads_at[order]
    begins = (np.diff(consumer, prepend=-1) != 0) | (np.diff(reads_at, prepend=-1.0) != 0)
    return Windows(
        first=np.concatenate([np.flatnonzero(begins), [len(record)]]),
        window=np.cumsum(begins) - 1,
        record=record,
        size_bytes=np.asarray(offers.size_bytes)[record],
        first_of=np.concatenate([[0], np.cumsum(offers.waiting)]),
        entry_of=np.argsort(record, kind="stable"),
        retention_bytes=logs.retention_bytes,
        reference_bytes=logs.reference_bytes,
    )


def refuse_dependent(logs: Logs) -> None:
    """Say for which logs the bound holds."""
    wanted = {"layout": "each", "notice": "number", "database_write_s": 0.0}
    for name, value in wanted.items():
        if getattr(logs, name) != value:
            raise SettingError(
                f"the bound holds for {name}={value}, not {getattr(logs, name)}",
                field=name,
                hint="else what is refused changes when others are read",
            )
    if not logs.retention_bytes:
        raise SettingError("the bound is about logs of limited size", field="retention_bytes")
