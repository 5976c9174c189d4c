"""The publication log: append-only segment files per dataset, durable before anyone is told.

`PublicationLog` is the one writer of a directory; `reader` serves any number of processes.
"""

from tocsin.storage.log.line import is_dataset_name
from tocsin.storage.log.reader import first_position, read_heads, read_lines, segments
from tocsin.storage.log.writer import Appended, Cut, PublicationLog

__all__ = [
    "Appended",
    "Cut",
    "PublicationLog",
    "first_position",
    "is_dataset_name",
    "read_heads",
    "read_lines",
    "segments",
]
