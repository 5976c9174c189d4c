"""How stored datasets are kept, whatever the medium."""

from __future__ import annotations

from msgspec import Struct

from tocsin.spark.local import SMALL_BYTES

SMALL_TAIL_BYTES = SMALL_BYTES  # less than this is read faster than Spark plans to read it
FLUSH_BYTES = 256 * 1024 * 1024  # log bytes that become one Parquet file at most


class TableLimits(Struct, frozen=True):
    compact_files: int = 8  # so many files of a dataset are merged
    small_tail_bytes: int = SMALL_TAIL_BYTES  # of the log; a smaller tail is read by the driver
    flush_bytes: int = FLUSH_BYTES
    grace_s: float = 600.0  # a replaced file is kept so long, for whoever still reads it
