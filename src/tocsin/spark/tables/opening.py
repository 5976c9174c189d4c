"""The medium that Spark fills, of the stored datasets that others read."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tocsin.settings import Settings
from tocsin.spark.tables.parquet import ParquetMedium
from tocsin.spark.tables.port import Medium
from tocsin.storage.data_directory import DATASETS
from tocsin.storage.store.store import Store
from tocsin.storage.tables import TableFiles


def open_medium(spark: SparkSession, settings: Settings, store: Store, files: TableFiles) -> Medium:
    if settings.tables:
        from tocsin.spark.tables.delta import DeltaMedium  # its library is an extra
        from tocsin.storage.tables.delta import DeltaFiles

        assert isinstance(files, DeltaFiles)
        return DeltaMedium(spark, files, store.catalog.datasets)
    return ParquetMedium(spark, Path(settings.data).absolute() / DATASETS, store.files)
