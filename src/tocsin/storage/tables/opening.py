"""Where stored datasets lie, by the setting `tables`."""

from __future__ import annotations

from pathlib import Path

from tocsin import extras
from tocsin.settings import Settings
from tocsin.storage.data_directory import DATASETS
from tocsin.storage.store.store import Store
from tocsin.storage.tables.address import TableAddress
from tocsin.storage.tables.claim import claim, require_none
from tocsin.storage.tables.parquet import ParquetFiles
from tocsin.storage.tables.place import Place
from tocsin.storage.tables.port import TableFiles


def open_tables(settings: Settings, store: Store) -> TableFiles:
    """SettingError if they are another store's, or the store's are elsewhere."""
    if not settings.tables:
        require_none(store)
        return ParquetFiles(store.files, Path(settings.data).absolute() / DATASETS)
    extras.require("delta")
    from tocsin.storage.tables.delta import DeltaFiles  # its library is an extra

    files = DeltaFiles(TableAddress.parse(settings.tables), store.id)
    claim(files.place, store)
    return files


def check_reachable(tables: str) -> None:
    """Raise `Unavailable` if tables lie where nobody answers now."""
    if tables:
        Place(TableAddress.parse(tables)).folders()
