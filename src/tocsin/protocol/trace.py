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
from typing import Literal

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

FIELDS = (
    ("at_s", "d"),  # seconds since the recording began
    ("kind", "i"),  # the number of the event's kind
    ("subscriber", "i"),  # -1 if the kind has none
    ("subscription", "i"),  # -1 if the kind has none
    ("backend", "i"),  # -1 if the kind has none
    ("after", "q"),  # the position before the event's first
    ("position", "q"),  # the event's last position
    ("size_bytes", "q"),
    ("hits", "q"),  # results that the cache had
    ("hit_bytes", "q"),
    ("misses", "q"),  # results that were fetched
    ("miss_bytes", "q"),
)
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
