"""What is left of records when files are merged. Takes a DataFrame and gives one."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tocsin.model import Dataset
from tocsin.spark.records import keep_newest, keep_retained
from tocsin.spark.tables.compaction import merges_keys


def merged(records: DataFrame, dataset: Dataset, oldest_us: int | None) -> DataFrame:
    """What was received up to `oldest_us` is outside RETAIN."""
    if oldest_us is not None:
        records = records.transform(keep_retained, oldest_us)
    if merges_keys(dataset):
        records = records.transform(keep_newest, dataset)
    return records
