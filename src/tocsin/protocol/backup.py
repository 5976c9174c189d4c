"""A backup: a directory of files and the manifest that makes them a whole; format 1.

The store lies in `store/TABLE.jsonl`, a row on each line: the columns of its table in their order,
bytes in base64. Rows come in the order of the primary key, so that equal tables are equal files,
whichever database they came from. The publication log lies in `log/DATASET/`: segments as they
are, or `messages.jsonl`, a topic's messages. `matches/messages.jsonl` has what real-time mode had
found, and the store had not taken. Parquet files lie in `datasets/` under the names that the store
knows, or Delta tables in `tables/`, each in a folder of its own; attachments in `attachments/`
under their hash, and what else a data directory has in `system/`.

Pure: no files here.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

FORMAT = 1

MANIFEST = "manifest.json"  # written last: without it a directory is no backup
STARTED = "started.json"  # of a backup that is not whole: a `Source`
MESSAGES = "messages.jsonl"
MATCHES = f"matches/{MESSAGES}"

LogKind = Literal["segments", "kafka"]


class Source(Struct, frozen=True):
    """Whose backup it is."""

    id: str  # of the store
    store: str  # its address, for people
    log: LogKind


class StoredFile(Struct, frozen=True):
    path: str  # in the backup
    size_bytes: int
    sha256: str


class TableRows(Struct, frozen=True):
    """A table of the store: its file is `store/NAME.jsonl`."""

    name: str
    rows: int


class DatasetCut(Struct, frozen=True):
    """Up to where a dataset is in the backup: Parquet up to `stored_end`, the log from there. What
    the log has from `first` on is kept for the sake of its keys."""

    name: str
    first: int
    stored_end: int
    end: int
    log_records: int  # in [stored_end, end)
    stored_files: int
    stored_rows: int


class Manifest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int
    product: str  # the version of Tocsin that made it
    schema: int  # the version of the store's tables
    source: Source
    incarnation: int  # of the store
    began_at: float
    ended_at: float
    last_us: int  # the newest time that the log had handed out
    tables: list[TableRows]
    datasets: list[DatasetCut]
    attachments: int
    matches: int  # of real-time mode
    files: list[StoredFile]
    delta: bool = False  # the stored part of datasets is Delta tables


class LoggedMessage(Struct, frozen=True):
    """A message of a topic, by its position. `part`: its request's key, which part of the
    request it is, and of how many."""

    position: int
    value: Raw
    key: bytes | None = None  # what Kafka keeps in order by
    part: tuple[str, int, int] | None = None


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode_manifest(text: bytes) -> Manifest:
    return msgspec.json.decode(text, type=Manifest)
