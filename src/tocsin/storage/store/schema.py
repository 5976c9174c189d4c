"""The tables of the store, in types that SQLite, PostgreSQL and MariaDB share.

Knows nothing of engines or transactions. A change here raises SCHEMA_VERSION and needs a step in
`storage.upgrades`.
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
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from tocsin.errors import InvalidInput

SCHEMA_VERSION = 8

NAME_CHARACTERS = 190  # two names, or a name and a path, must fit an index of MariaDB (3072 bytes)
PATH_CHARACTERS = 500
RESULT_COUNTER = "result"  # the counter of the last result's number


class _Text(TypeDecorator[str]):
    """Text that every database can hold; it compares and sorts by code point."""

    impl = Text
    cache_ok = True

    def __init__(self, characters: int | None = None) -> None:
        super().__init__()
        self.characters = characters

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if self.characters is None:
            return mysql.LONGTEXT() if dialect.name == "mariadb" else Text()
        return String(self.characters, collation="C" if dialect.name == "postgresql" else None)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is not None and not storable(value):
            raise InvalidInput(
                f"{value[:40]!r} has a character that cannot be stored",
                hint="leave out NUL (U+0000) and unpaired surrogates",
            )
        return value


class _Number(TypeDecorator[int]):
    """A number of 64 bits."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else checked_number(value)


class _Id(_Number):
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLite numbers rows only for INTEGER, which has 64 bits there."""
        return Integer() if dialect.name == "sqlite" else BigInteger()


def checked_number(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise InvalidInput(f"{value} is no number of 64 bits")
    return value


def storable(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


Name = _Text(NAME_CHARACTERS)
Path = _Text(PATH_CHARACTERS)
Hash = _Text(32)
LongText = _Text()
Number = _Number()
Id = _Id()
Payload = LargeBinary().with_variant(mysql.LONGBLOB(), "mariadb")

# Ids are never reused: a broker may still hold an old one.
_OPTIONS: dict[str, Any] = {
    "sqlite_autoincrement": True,
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
}

metadata = MetaData()


def _table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, **_OPTIONS | options)


meta = _table(
    "meta",
    Column("name", Name, primary_key=True),
    Column("value", Name, nullable=False),
)

META_TABLES = "tables"  # the row that says where the Delta tables of datasets lie

counters = _table(
    "counters",
    Column("name", Name, primary_key=True),
    Column("value", Number, nullable=False),
)

datasets = _table(
    "datasets",
    Column("name", Name, primary_key=True),
    Column("body", LongText, nullable=False),
)

channels = _table(
    "channels",
    Column("name", Name, primary_key=True),
    Column("body", LongText, nullable=False),
)

brokers = _table(
    "brokers",
    Column("name", Name, primary_key=True),
    Column("url", LongText, nullable=False),
    Column("created_at", Double, nullable=False),
)

# Once something was granted to a role, grants decide as long as the role is there.
roles = _table(
    "roles",
    Column("name", Name, primary_key=True),
    Column("granted", Number, nullable=False),
    Column("created_at", Double, nullable=False),
)

grants = _table(
    "grants",
    Column("role", Name, ForeignKey(roles.c.name), primary_key=True),
    Column("privilege", Hash, primary_key=True),
    Column("name", Name, primary_key=True),  # of a channel or a dataset, as the privilege says
    Index("grant_by_name", "name"),
)

quotas = _table(
    "quotas",
    Column("role", Name, primary_key=True),  # empty: everybody
    Column("name", Hash, primary_key=True),
    Column("size", Number, nullable=False),
)

backend_subscriptions = _table(
    "backend_subscriptions",
    Column("id", Id, primary_key=True),
    Column("channel", Name, ForeignKey(channels.c.name), nullable=False),
    Column("arguments", LongText, nullable=False),
    # Arguments may be longer than any index allows: a hash of channel and arguments is unique.
    Column("hash", Hash, nullable=False, unique=True),
    Column("epoch", Hash, nullable=False),
    Column("head", Number, nullable=False),
    Column("floor", Number, nullable=False),
    Column("sequence", Number, nullable=False),  # of the last change of head
    # Of the channel's one NEW dataset: records at or after this position count for it.
    Column("since", Number, nullable=False, server_default="0"),
    Column("failure", LongText, nullable=True),  # why its parameter set is set aside, if it is
    Index("backend_by_channel", "channel"),
    Index("backend_by_since", "channel", "since"),
    Index("backend_by_sequence", "sequence"),
)

frontend_subscriptions = _table(
    "frontend_subscriptions",
    Column("id", Id, primary_key=True),
    Column("subscriber", Name, nullable=False),
    Column("broker", Name, ForeignKey(brokers.c.name), nullable=True),
    Column("backend", Id, ForeignKey(backend_subscriptions.c.id), nullable=False),
    Column("marker", Number, nullable=False),
    Column("sequence", Number, nullable=False),  # of its arrival at the broker
    # What its subscriber showed last: by this it is known whom a REVOKE concerns.
    Column("credentials", LongText, nullable=True),
    UniqueConstraint("subscriber", "backend", name="frontend_once"),
    Index("frontend_by_broker", "broker", "sequence"),
    Index("frontend_by_number", "broker", "id"),  # a page of a broker costs the same anywhere
    Index("frontend_by_backend", "backend", "broker"),
)

detachments = _table(
    "detachments",
    Column("id", Id, primary_key=True),
    Column("broker", Name, nullable=False),
    Column("subscription", Id, nullable=False),
    Column("sequence", Number, nullable=False),
    Column("at", Double, nullable=False),
    Index("detachment_by_broker", "broker", "sequence"),
    Index("detachment_by_subscription", "subscription"),
)

results = _table(
    "results",
    # Ours to give, so that numbers grow in the order of commits and are never given again.
    Column("number", Id, primary_key=True, autoincrement=False),
    Column("id", Hash, nullable=False),
    Column("backend", Id, ForeignKey(backend_subscriptions.c.id), nullable=False),
    Column("position", Number, nullable=False),
    Column("record", Number, nullable=True),  # its position in the log, if it is of one record
    Column("created_at", Double, nullable=False),
    Column("payload", Payload, nullable=False),
    Index("result_by_id", "id", unique=True),
    Index("result_by_position", "backend", "position", unique=True),
    Index("result_by_age", "created_at"),
    sqlite_autoincrement=False,
)

runs = _table(
    "runs",
    Column("number", Id, primary_key=True),
    Column("channel", Name, ForeignKey(channels.c.name), nullable=False),
    Column("run", Name, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("window_start_us", Number, nullable=False),
    Column("window_end_us", Number, nullable=False),
    Column("ends", LongText, nullable=False),
    Column("rows", Number, nullable=False),
    Column("error", LongText, nullable=True),
    UniqueConstraint("channel", "run", name="run_once"),
    Index("run_by_number", "channel", "number"),
)

# How far each channel has run. It moves in the transaction that stores what a run found.
progress = _table(
    "progress",
    Column("channel", Name, primary_key=True),
    Column("ends", LongText, nullable=False),  # of each NEW dataset's log, exclusive
    Column("at_us", Number, nullable=False),  # where its last window ended
    # In real-time mode: Spark's own query looks at every parameter set up to this one.
    Column("settled", Number, nullable=False, server_default="0"),
)

# Records that a channel went past without an answer, and why.
losses = _table(
    "losses",
    Column("number", Id, primary_key=True),
    Column("channel", Name, nullable=False),
    Column("at", Double, nullable=False),
    Column("dataset", Name, nullable=False),
    Column("first", Number, nullable=False),
    Column("end", Number, nullable=False),
    Column("records", Number, nullable=False),
    Column("cause", LongText, nullable=False),
    Index("loss_by_channel", "channel", "number"),
)

dataset_files = _table(
    "dataset_files",
    Column("dataset", Name, primary_key=True),
    Column("path", Path, primary_key=True),
    Column("first_position", Number, nullable=False),
    Column("end_position", Number, nullable=False),
    Column("rows", Number, nullable=False),
    Column("size_bytes", Number, nullable=False),
    Column("max_received_us", Number, nullable=False),
    Column("retired_at", Double, nullable=True),  # live while empty
)

# Apart from the files, because retention may drop all of a dataset's files and the end remains.
dataset_ends = _table(
    "dataset_ends",
    Column("dataset", Name, primary_key=True),
    Column("stored_end", Number, nullable=False),
)

# What was taken of the topics that feed datasets. [done, claimed) is in doubt after a crash.
feeds = _table(
    "feeds",
    Column("dataset", Name, primary_key=True),
    Column("topic", Name, primary_key=True),  # Kafka's id of it: one made anew is another
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("done", Number, nullable=False),
    Column("claimed", Number, nullable=False),
)

# How far the matches of real-time channels were taken: see `match_progress`.
match_partitions = _table(
    "match_partitions",
    Column("topic", Name, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("up_to", Number, nullable=False),
    Column("generation", Number, nullable=False),  # how often the store was taken since
    Column("holder", Name, nullable=False),  # of the last commit
    Column("at", Double, nullable=False),  # what it dated its results by
)
