"""Where stored datasets lie, by the setting `tables`."""

from __future__ import annotations

from pathlib import Path

from tocsin import extras
from tocsin.settings import Settings
from tocsin.storage.data_directory import DATASETS
from tocsin.storage.store.store import Store
from tocsin.storage.tables.address import TableAddress
from tocsin.storage.tables.parquet import ParquetFiles
from tocsin.storage.tables.port import TableFiles


def open_tables(settings: Settings, store: Store) -> TableFiles:
    if settings.tables:
        extras.require("delta")
        from tocsin.storage.tables.delta import DeltaFiles  # its library is an extra

        return DeltaFiles(TableAddress.parse(settings.tables), store.id)
    return ParquetFiles(store.files, Path(settings.data).absolute() / DATASETS)
