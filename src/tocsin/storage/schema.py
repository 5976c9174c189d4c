"""The tables of the store, in types that SQLite, PostgreSQL and MariaDB share.

Knows nothing of engines or transactions. A change here raises SCHEMA_VERSION.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

SCHEMA_VERSION = 2

NAME_CHARACTERS = 190  # two names, or a name and a path, must fit an index of MariaDB (3072 bytes)
PATH_CHARACTERS = 500
RESULT_COUNTER = "result"  # the counter of the last result's number

Name = String(NAME_CHARACTERS)
Path = String(PATH_CHARACTERS)
Hash = String(32)
Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only for INTEGER
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
Payload = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")

# Ids are never reused (a broker may still hold an old one), and names differ by case everywhere.
_OPTIONS: dict[str, Any] = {
    "sqlite_autoincrement": True,
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("name", Name, primary_key=True),
    Column("value", Name, nullable=False),
    **_OPTIONS,
)

counters = Table(
    "counters",
    metadata,
    Column("name", Name, primary_key=True),
    Column("value", BigInteger, nullable=False),
    **_OPTIONS,
)

datasets = Table(
    "datasets",
    metadata,
    Column("name", Name, primary_key=True),
    Column("body", LongText, nullable=False),
    **_OPTIONS,
)

channels = Table(
    "channels",
    metadata,
    Column("name", Name, primary_key=True),
    Column("body", LongText, nullable=False),
    **_OPTIONS,
)

brokers = Table(
    "brokers",
    metadata,
    Column("name", Name, primary_key=True),
    Column("url", LongText, nullable=False),
    Column("created_at", Double, nullable=False),
    **_OPTIONS,
)

backend_subscriptions = Table(
    "backend_subscriptions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("channel", Name, ForeignKey(channels.c.name), nullable=False),
    Column("arguments", LongText, nullable=False),
    # Arguments may be longer than any index allows: a hash of channel and arguments is unique.
    Column("hash", Hash, nullable=False, unique=True),
    Column("epoch", Hash, nullable=False),
    Column("head", BigInteger, nullable=False),
    Column("floor", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),  # of the last change of head
    Index("backend_by_channel", "channel"),
    Index("backend_by_sequence", "sequence"),
    **_OPTIONS,
)

frontend_subscriptions = Table(
    "frontend_subscriptions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("subscriber", Name, nullable=False),
    Column("broker", Name, ForeignKey(brokers.c.name), nullable=True),
    Column("backend", Id, ForeignKey(backend_subscriptions.c.id), nullable=False),
    Column("marker", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),  # of its arrival at the broker
    UniqueConstraint("subscriber", "backend", name="frontend_once"),
    Index("frontend_by_broker", "broker", "sequence"),
    Index("frontend_by_backend", "backend", "broker"),
    **_OPTIONS,
)

detachments = Table(
    "detachments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("broker", Name, nullable=False),
    Column("subscription", Id, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    Index("detachment_by_broker", "broker", "sequence"),
    Index("detachment_by_subscription", "subscription"),
    **_OPTIONS,
)

results = Table(
    "results",
    metadata,
    # Ours to give, so that numbers grow in the order of commits and are never given again.
    Column("number", Id, primary_key=True, autoincrement=False),
    Column("id", Hash, nullable=False),
    Column("backend", Id, ForeignKey(backend_subscriptions.c.id), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("record", BigInteger, nullable=True),  # its position in the log, if it is of one record
    Column("created_at", Double, nullable=False),
    Column("payload", Payload, nullable=False),
    Index("result_by_id", "id", unique=True),
    Index("result_by_position", "backend", "position", unique=True),
    Index("result_by_age", "created_at"),
    **{**_OPTIONS, "sqlite_autoincrement": False},
)

runs = Table(
    "runs",
    metadata,
    Column("number", Id, primary_key=True),
    Column("channel", Name, ForeignKey(channels.c.name), nullable=False),
    Column("run", Name, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("window_start_us", BigInteger, nullable=False),
    Column("window_end_us", BigInteger, nullable=False),
    Column("ends", LongText, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("error", LongText, nullable=True),
    UniqueConstraint("channel", "run", name="run_once"),
    Index("run_by_number", "channel", "number"),
    **_OPTIONS,
)

dataset_files = Table(
    "dataset_files",
    metadata,
    Column("dataset", Name, primary_key=True),
    Column("path", Path, primary_key=True),
    Column("first_position", BigInteger, nullable=False),
    Column("end_position", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("max_received_us", BigInteger, nullable=False),
    Column("retired_at", Double, nullable=True),  # live while empty
    **_OPTIONS,
)

# Apart from the files, because retention may drop all of a dataset's files and the end remains.
dataset_ends = Table(
    "dataset_ends",
    metadata,
    Column("dataset", Name, primary_key=True),
    Column("stored_end", BigInteger, nullable=False),
    **_OPTIONS,
)

# What was taken of the topics that feed datasets. [done, claimed) is in doubt after a crash.
feeds = Table(
    "feeds",
    metadata,
    Column("dataset", Name, primary_key=True),
    Column("topic", Name, primary_key=True),  # Kafka's id of it: one made anew is another
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("done", BigInteger, nullable=False),
    Column("claimed", BigInteger, nullable=False),
    **_OPTIONS,
)
