"""The bytes of a message in a dataset's topic. Pure; no Kafka here.

The value is a line of the log without its position, which Kafka itself tells:
`{"t":1763258400000000,"r":{…},"x":{…}}`. Every message of a request with a key says in its headers
the key, its number in the request, and how many there are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tocsin.storage.log.port import Stamped

OVERHEAD_BYTES = 200  # what Kafka adds to a message, and to a batch of one
_RECORD = re.compile(rb'\{"t":([0-9]{1,18}),"r":\{')

Header = tuple[str, str | bytes | None]


class Part(NamedTuple):
    """Which part of which request a message is."""

    key: str
    number: int
    of: int


def value(one: Stamped) -> bytes:
    if one.extra is None:
        return b'{"t":%d,"r":%b}' % (one.at_us, one.record)
    return b'{"t":%d,"r":%b,"x":%b}' % (one.at_us, one.record, one.extra)


def stamp(value: bytes | None) -> int:
    """When the log took it; 0 if this is no record of ours."""
    found = _RECORD.match(value or b"")
    return int(found[1]) if found else 0


def line(offset: int, value: bytes | None) -> bytes | None:
    """A record's JSON as segments have it; None if this is no record of ours: somebody else wrote
    it."""
    if value is None or not _RECORD.match(value):
        return None
    return b'{"p":%d,%b' % (offset, value[1:])


def headers(part: Part) -> list[Header]:
    return [("k", part.key.encode()), ("n", b"%d" % part.number), ("o", b"%d" % part.of)]


def part(headers: list[Header] | dict[str, str | bytes | None] | None) -> Part | None:
    told = {name: text for name, text in dict(headers or ()).items() if isinstance(text, bytes)}
    try:
        return Part(told["k"].decode(), int(told["n"]), int(told["o"]))
    except (KeyError, ValueError):
        return None
