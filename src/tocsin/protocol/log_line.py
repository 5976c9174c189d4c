"""The publication log's record: a line of a segment file, and a message of a dataset's Kafka topic.

A line of a segment, version 1:

    CCCCCCCC {"p":120,"t":1763258400000000,"n":3,"k":"5e1f","r":{…},"x":{…}}

The first eight digits are the crc32 of the JSON after the blank. The JSON is the line's *body*;
`decode` checks a line and returns its body. The first line of a request carries the number of its
lines, if there are several, and its key, if it has one. A line that a repair wrote in the place of
lost records has the same length in bytes as they had, so that no later position changes:

    CCCCCCCC {"p":480,"t":0,"lost":2                                          }

A message of a topic has the body without the position as its value, because Kafka knows the offset.
Each message of a request with a key says in its headers which part of the request it is.

Lines and messages carry no version: those without one are of version 1. Pure: no files and no Kafka
clients here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec import Raw, Struct, field

from tocsin.protocol.unreadable import readable

VERSION = 1

POSITION = "p"  # where the line begins, in bytes from the start of its dataset's log
TAKEN_US = "t"  # when the log took the record, in microseconds since the epoch
LINES = "n"  # how many lines the request has; first line only, absent if one
KEY = "k"  # the request's key; first line only, absent if it has none
RECORD = "r"  # the declared fields, a JSON object
EXTRA = "x"  # the undeclared fields of a record of an open dataset; absent if there are none
LOST = "lost"  # about how many records were lost here; instead of a record

KEY_HEADER = "k"  # of a message: the key of its request
NUMBER_HEADER = "n"  # of a message: its number in the request, from 0
PARTS_HEADER = "o"  # of a message: how many messages the request has

CHECKSUM_BYTES = 8  # crc32 of the body, in hexadecimal digits
PREFIX_BYTES = CHECKSUM_BYTES + 1  # with a blank
FRAME_BYTES = PREFIX_BYTES + 1  # what a line has besides its body: the prefix and a newline
MESSAGE_OVERHEAD_BYTES = 200  # what Kafka adds to a message, and to a batch of one
LARGEST_FILLER_BYTES = 64 * 1024
_SMALLEST_FILLER_BYTES = 80

BODY_START = f'{{"{POSITION}":'  # the digits of the position follow
FILLER_START = f',"{TAKEN_US}":0,"{LOST}":'  # follows the position in a line without a record
MESSAGE_PATTERN = rf'\{{"{TAKEN_US}":([0-9]{{1,18}}),"{RECORD}":\{{'
"""How the value of a message begins that is a record, for regular expressions of Python and Java.
Anybody may write to a topic; values that do not begin so are passed over."""

BODY_PATTERN = re.compile(rf'\{{"{POSITION}":([0-9]{{1,20}}),'.encode())
"""How a body begins, wherever it stands in damaged bytes."""
_TAKEN_US = re.compile(rf'\{{"{POSITION}":[0-9]+,"{TAKEN_US}":([0-9]+),'.encode())
_HEAD = re.compile(
    rf'\{{"{POSITION}":[0-9]+,"{TAKEN_US}":[0-9]+,'
    rf'(?:"{LINES}":([0-9]+),)?(?:"{KEY}":"([^"]*)",)?'.encode()
)
_FILLER = re.compile(rf'\{{"{POSITION}":[0-9]+{FILLER_START}([0-9]+) *\}}'.encode())
_MESSAGE = re.compile(MESSAGE_PATTERN.encode())

# Templates: the log writes many thousand lines a second, and records are JSON already.
_FRAME = b"%08x %b\n"
_BODY = f'{BODY_START}%d,"{TAKEN_US}":%d,%b"{RECORD}":%b}}'.encode()
_BODY_WITH_EXTRA = f'{BODY_START}%d,"{TAKEN_US}":%d,%b"{RECORD}":%b,"{EXTRA}":%b}}'.encode()
_VALUE = f'{{"{TAKEN_US}":%d,"{RECORD}":%b}}'.encode()
_VALUE_WITH_EXTRA = f'{{"{TAKEN_US}":%d,"{RECORD}":%b,"{EXTRA}":%b}}'.encode()
_BODY_OF_VALUE = f"{BODY_START}%d,%b".encode()
_POSITION = f"{BODY_START}%d,".encode()
_FILLER_BODY = f"{BODY_START}%d{FILLER_START}%d".encode()
_LINES = f'"{LINES}":%d,'.encode()
_KEY = f'"{KEY}":"%b",'.encode()


class RequestHead(NamedTuple):
    """What the first line of a request says of the whole request."""

    lines: int
    key: str | None


class Content(Struct, frozen=True):
    """What a body holds besides its place."""

    taken_us: int = field(name=TAKEN_US)
    record: Raw = field(name=RECORD)
    extra: Raw = field(name=EXTRA, default=Raw(b""))


_decode_content = readable(msgspec.json.Decoder(Content).decode)


def encode_head(head: RequestHead) -> bytes:
    """For the first line of a request; the others have an empty one."""
    lines = _LINES % head.lines if head.lines > 1 else b""
    return lines if head.key is None else lines + _KEY % head.key.encode()


def encode(
    position: int, taken_us: int, record: bytes, extra: bytes | None = None, head: bytes = b""
) -> bytes:
    """A whole line, newline included."""
    if extra is None:
        body = _BODY % (position, taken_us, head, record)
    else:
        body = _BODY_WITH_EXTRA % (position, taken_us, head, record, extra)
    return _FRAME % (crc32(body), body)


def encode_body(position: int, taken_us: int, record: bytes, extra: bytes | None = None) -> bytes:
    return encode(position, taken_us, record, extra)[PREFIX_BYTES:-1]


def decode(line: bytes, position: int) -> bytes | None:
    """The body of a line that starts at `position`; None if it is not what was written there: it
    was torn, moved or changed."""
    if len(line) <= FRAME_BYTES or not line.endswith(b"\n"):
        return None
    body = line[PREFIX_BYTES:-1]
    if line[:PREFIX_BYTES] != b"%08x " % crc32(body):
        return None
    return body if body.startswith(_POSITION % position) else None


def decode_head(body: bytes) -> RequestHead:
    """Of a request, by the body of its first line."""
    head = _HEAD.match(body)
    if head is None:
        raise ValueError("not a line of the publication log")
    key = head[2]
    return RequestHead(int(head[1] or 1), None if key is None else key.decode())


def taken_us(body: bytes) -> int:
    """When the log took a record, without parsing the record."""
    stamp = _TAKEN_US.match(body)
    if stamp is None:
        raise ValueError("not a line of the publication log")
    return int(stamp[1])


def decode_content(body: bytes) -> Content:
    """Raises msgspec.DecodeError if the body is no record: anybody may write to a topic."""
    return _decode_content(body)


def encode_fillers(position: int, size_bytes: int, records: int) -> bytes | None:
    """Lines that fill so many bytes; None if these are too few. The first one counts the lost
    records."""
    lines = []
    while size_bytes > 0:
        line_bytes = min(size_bytes, LARGEST_FILLER_BYTES)
        if 0 < size_bytes - line_bytes < _SMALLEST_FILLER_BYTES:
            line_bytes -= _SMALLEST_FILLER_BYTES
        text = _FILLER_BODY % (position, records)
        blanks = line_bytes - FRAME_BYTES - len(text) - 1
        if blanks < 0:
            return None
        body = b"%b%b}" % (text, b" " * blanks)
        lines.append(_FRAME % (crc32(body), body))
        position, size_bytes, records = position + line_bytes, size_bytes - line_bytes, 0
    return b"".join(lines)


def is_filler(body: bytes) -> bool:
    """Whether a line stands in the place of lost records."""
    return _FILLER.fullmatch(body) is not None


# Messages of a dataset's topic

Header = tuple[str, str | bytes | None]


class RequestPart(NamedTuple):
    """Which part of which request a message is."""

    key: str
    number: int
    parts: int


def encode_message(taken_us: int, record: bytes, extra: bytes | None) -> bytes:
    """A message's value."""
    if extra is None:
        return _VALUE % (taken_us, record)
    return _VALUE_WITH_EXTRA % (taken_us, record, extra)


def message_taken_us(value: bytes | None) -> int:
    """When the log took the record; 0 if the message is no record."""
    record = _MESSAGE.match(value or b"")
    return int(record[1]) if record else 0


def message_body(offset: int, value: bytes | None) -> bytes | None:
    """The body of the line that a segment would have; None if the message is no record."""
    if value is None or not _MESSAGE.match(value):
        return None
    return _BODY_OF_VALUE % (offset, value[1:])


def encode_headers(part: RequestPart) -> list[Header]:
    return [
        (KEY_HEADER, part.key.encode()),
        (NUMBER_HEADER, b"%d" % part.number),
        (PARTS_HEADER, b"%d" % part.parts),
    ]


def decode_headers(
    headers: Sequence[Header] | Mapping[str, str | bytes | None] | None,
) -> RequestPart | None:
    """None if the request has no key, or somebody else wrote the message."""
    texts = {name: text for name, text in dict(headers or ()).items() if isinstance(text, bytes)}
    try:
        return RequestPart(
            texts[KEY_HEADER].decode(), int(texts[NUMBER_HEADER]), int(texts[PARTS_HEADER])
        )
    except (KeyError, ValueError):
        return None
