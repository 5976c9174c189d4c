"""The word for one Parquet file of a dataset, shared by the manifest and by those who write files.

Knows neither how a manifest stores it nor how Spark reads it.
"""

from __future__ import annotations

from msgspec import Struct


class DataFile(Struct, frozen=True):
    """A file that holds records with first_position <= _position < end_position of one dataset."""

    path: str  # relative to the directory of all tables
    first_position: int
    end_position: int
    rows: int
    size_bytes: int
    max_received_us: int  # newest `_received_at` in the file; 0 when it holds no rows
