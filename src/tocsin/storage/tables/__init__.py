"""What of datasets is stored in files, wherever they lie, as it is read without Spark."""

from tocsin.storage.tables.opening import open_tables
from tocsin.storage.tables.port import Folder, Stored, TableFiles

__all__ = ["Folder", "Stored", "TableFiles", "open_tables"]
