"""What is asked of a medium of stored datasets by those who fill it and read it with Spark.

A medium is Parquet files in the data directory, with the store's manifest, or Delta tables. What
does not differ (the log's tail, sizes, newest per key, RETAIN) is in `Tables`, which drives one.
What those see of it who read without Spark is `storage.tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from tocsin.model import Dataset
from tocsin.spark.tables.compaction import Compaction
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.tables import Stored


class Medium(Protocol):
    """One call that changes something at a time; any number that read."""

    def stored(self, dataset: Dataset, *, anew: bool = False) -> Stored:
        """As of now; `anew`: also what somebody else may have done. Whoever has it may read those
        files until the grace period has passed since they were replaced, and for as long as a cut
        is pinned that was taken before."""

    def frame(self, dataset: Dataset, files: Sequence[DataFile]) -> DataFrame:
        """All records of some files of one `stored`. Reads as they are: no key hides another."""

    def append(self, dataset: Dataset, records: DataFrame, first: int, end: int) -> None:
        """The records of [first, end) of the log become stored, and `end` with them: all or
        nothing, durably. What is stored ends at `first`; if it has reached `end` already, nothing
        is done."""

    def compact(self, dataset: Dataset, stored: Stored, compaction: Compaction) -> None:
        """Drop what is expired, merge the run; of each key the newest, where keys are merged."""

    def drop(self, dataset: Dataset) -> None:
        """Nothing is stored of it any more. `sweep` deletes the files."""

    def sweep(self, before: float) -> int:
        """Delete what was replaced before a moment, and what a crash left before; how many."""
