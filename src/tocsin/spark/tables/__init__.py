"""Stored datasets. `Tables` is what callers use; where the stored part lies is a `Medium`'s."""

from tocsin.spark.tables.limits import TableLimits
from tocsin.spark.tables.parquet import ParquetMedium
from tocsin.spark.tables.port import Medium
from tocsin.spark.tables.tables import Tables

__all__ = ["Medium", "ParquetMedium", "TableLimits", "Tables"]
