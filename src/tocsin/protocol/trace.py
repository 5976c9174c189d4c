"""A trace: what a broker saw, as records over HTTP, in a growing journal and in Parquet; version 1.

A broker streams `RECORD`s, without names, parameters or payloads: subscribers, subscriptions,
backend subscriptions and pages are small numbers. A *journal* is a file of blocks: a head
(`BLOCK_HEAD`), the crc32 of the head (`BLOCK_CHECK`) and the content. The first block contains the
label as JSON, the others contain records, compressed by zstd. A finished trace is a Parquet file
with a column for each field and the label in its metadata.

Pure: no files, sockets, arrays or tables here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, get_type_hints

from msgspec import Struct

VERSION = 1

SUBSCRIBE, UNSUBSCRIBE, ARRIVE, LEAVE, PUBLISH, SIZE, GET, ACK, LOST, QUIET = range(10)
PAGE, OPEN, OUTDATED = range(10, 13)
KINDS = (
    "subscribe",
    "unsubscribe",
    "arrive",
    "leave",
    "publish",
    "size",  # of an object that was published before: its size in bytes
    "get",
    "ack",
    "lost",  # `position` records were dropped, because the recording had no room for them
    "quiet",  # nothing happened until then
    "page",  # `after` subscriptions matched the page `position`
    "open",  # somebody opened the page `position`; `after` is 1 if a notification led there
    "outdated",  # a newer version of the page came; `after` is 1 if it is the newest again
)
"""The kinds of events by their numbers."""

Number = Annotated[int, "i"]  # its `struct` code
Amount = Annotated[int, "q"]


class TraceRecord(NamedTuple):
    """An event of a trace; the time is put before it."""

    kind: Number  # the number of the event's kind
    subscriber: Number = -1  # -1 if the kind has none
    subscription: Number = -1  # -1 if the kind has none
    backend: Number = -1  # -1 if the kind has none
    after: Amount = 0  # the position before the event's first
    position: Amount = 0  # the event's last position
    size_bytes: Amount = 0
    hits: Amount = 0  # results that the cache had
    hit_bytes: Amount = 0
    misses: Amount = 0  # results that were fetched
    miss_bytes: Amount = 0


def _codes() -> Iterator[tuple[str, str]]:
    yield "at_s", "d"  # seconds since the recording began
    for name, kind in get_type_hints(TraceRecord, include_extras=True).items():
        yield name, kind.__metadata__[0]


FIELDS = tuple(_codes())
"""A record's fields in order, with their `struct` codes."""
WHO = ("subscriber", "subscription", "backend")
RECORD = struct.Struct("<" + "".join(code for _, code in FIELDS))

MEDIA_TYPE = f"application/vnd.tocsin.trace; record={RECORD.size}"
KEEP_ALIVE_S = 2.0  # a broker sends a record at least this often

REQUEST_FIELDS = ("at_s", "object", "size_bytes")  # of a request trace

JOURNAL_MARK = b"TOCJ"  # begins every block of a journal
BLOCK_HEAD = struct.Struct("<4sIIdI")
"""The mark, the content's bytes, its records, the seconds recorded so far, the content's crc32."""
BLOCK_CHECK = struct.Struct("<I")

PARQUET_KEY = b"tocsin.trace"  # of the label in a Parquet file's metadata
KIND_COLUMN = "event"  # the Parquet column of a record's kind, by name

TraceKind = Literal["events", "requests"]


class About(Struct, frozen=True, kw_only=True):
    """What is known of a recording as a whole."""

    recorded_at: float = 0.0  # seconds since the epoch, when it began
    duration_s: float = 0.0
    policy: str | None = None  # of the broker when the recording began
    budget_bytes: int | None = None
    finished: bool = True  # false: its recorder was killed, or is at work; it ends at `duration_s`


class Label(Struct, frozen=True):
    """What a trace file says of itself."""

    kind: TraceKind
    version: int
    about: About = About()
