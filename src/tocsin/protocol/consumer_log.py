"""What deliveries write to Kafka, and what consumers write to get what they lack; version 1.

A *consumer log* is the topic of one subscription. Its messages are `LogRecord`s, keyed by position:

    {"position":41,"at":1763258400.25,"value":{…}}                       a result
    {"position":42,"at":1763258400.5,"value":null,"too_large":50000000}  a result no log takes
    {"position":43,"at":1763258400.75,"channel":"alerts","shared":12}    a result in the shared log
    {"position":44}                                                      a head: results up to here
    {"position":40,"expired":true}                                       results up to here are gone

The *shared log* of a channel holds results alone, keyed by the position of their record. A user's
topic holds `TopicResult`s, keyed by backend subscription. None of these carries a version: one
without is of version 1.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tocsin.protocol.fields import Number
from tocsin.protocol.unreadable import readable

VERSION = 1

NULL = Raw(b"null")


class LogRecord(Struct, frozen=True, omit_defaults=True):
    """A message of a consumer log; the functions below make the five kinds."""

    position: int
    at: float = 0.0  # when the result was made, in seconds since the epoch
    value: Raw | UnsetType = UNSET
    too_large: int = 0  # the size in bytes of a result that is left out
    channel: str = ""  # whose shared log holds the value
    shared: int | None = None  # the value's offset there
    expired: bool = False

    @property
    def is_result(self) -> bool:
        """Otherwise it is a head, or says what has expired."""
        return self.value is not UNSET or self.shared is not None


class MissingResults(Struct, frozen=True, omit_defaults=True):
    """A message of the topic of the missing: a consumer lacks results with after < position <=
    upto. `token`: its subscriber's, who is asked for it where grants decide."""

    subscription: Number
    after: Number
    upto: Number
    token: str = ""


class TopicResult(Struct, frozen=True, omit_defaults=True):
    """A message of a user's topic."""

    channel: str
    backend: int
    arguments: Raw  # of the backend subscription, a JSON object
    position: int
    at: float  # when the result was made, in seconds since the epoch
    value: Raw  # NULL if the topic does not take it
    too_large: int = 0  # the size in bytes of a result that the topic does not take


class Progress(Struct, frozen=True):
    """A message of the topic of deliveries, keyed by delivery: everything up to the result `number`
    was delivered. `memory` is what the admission policy remembers."""

    number: int = 0
    memory: dict[str, float] = {}


encode = msgspec.json.Encoder().encode
decode_log_record = readable(msgspec.json.Decoder(LogRecord).decode)
decode_missing_results = readable(msgspec.json.Decoder(MissingResults).decode)
decode_progress = msgspec.json.Decoder(Progress).decode


def encode_key(number: int) -> bytes:
    """A message's key: a position, or a backend subscription."""
    return b"%d" % number


def result(position: int, at: float, payload: bytes) -> LogRecord:
    return LogRecord(position, at, Raw(payload))


def too_large(position: int, at: float, size_bytes: int) -> LogRecord:
    return LogRecord(position, at, NULL, size_bytes)


def reference(position: int, at: float, channel: str, offset: int) -> LogRecord:
    return LogRecord(position, at, channel=channel, shared=offset)


def head(position: int) -> LogRecord:
    return LogRecord(position)


def expired(position: int) -> LogRecord:
    return LogRecord(position, expired=True)
