"""What of datasets is stored in files, wherever they lie, as it is read without Spark."""

from tocsin.storage.tables.opening import check_reachable, open_tables
from tocsin.storage.tables.port import Folder, Stored, TableFiles

__all__ = ["Folder", "Stored", "TableFiles", "check_reachable", "open_tables"]
