"""The whole of a log becomes Parquet at once, outside of a cluster."""

from __future__ import annotations

from contextlib import closing

from tocsin.settings import Settings
from tocsin.spark.session import build_session
from tocsin.spark.tables import Tables
from tocsin.spark.tables.opening import open_medium
from tocsin.storage.backup.progress import Progress, watched
from tocsin.storage.log import PublicationLog, open_reader
from tocsin.storage.store.store import Store
from tocsin.storage.tables import open_tables


def flush_all(settings: Settings, store: Store, log: PublicationLog, progress: Progress) -> None:
    """What the log has of each dataset that is not stored yet. Nobody else is using any of it."""
    ends, files = log.ends(), open_tables(settings, store)
    waiting = [
        dataset
        for dataset in store.catalog.datasets()
        if ends[dataset.name] > files.stored_end(dataset)
    ]
    if not waiting:
        return
    progress.begin("starting Spark", 0)
    spark = build_session(settings)
    try:
        with closing(open_reader(log.address)) as reader:
            tables = Tables(spark, reader, open_medium(spark, settings, store, files))
            for dataset in watched(progress, "records into Parquet", waiting):
                log.roll(dataset.name)
                tables.flush(dataset, ends[dataset.name])
    finally:
        spark.stop()
