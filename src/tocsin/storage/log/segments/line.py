"""The bytes of the log: one line per record, one file name per segment. Pure; no files here.

    CCCCCCCC {"p":120,"t":1763258400000000,"n":3,"k":"5e1f","r":{…},"x":{…}}

The first eight digits are the crc32 of the JSON that follows the blank. `p` is the byte offset at
which the line starts in its dataset's log, so a line that was moved, torn or written twice betrays
itself. `t` is when the log took the record, in microseconds since the epoch. The first line of a
request tells how many lines it has, if more than one (`n`), and its key, if it has one (`k`).

Where records were lost, and given up, there is a line that fills their place to the byte:

    CCCCCCCC {"p":480,"t":0,"lost":2                                          }

It holds no record, and tells about how many there were. So no position behind it changes.
"""

from __future__ import annotations

import re
from zlib import crc32

PREFIX_BYTES = 9  # eight digits and a blank
FRAME_BYTES = PREFIX_BYTES + 1  # what a line has besides its JSON
SUFFIX = ".log"

FILLER_BYTES = 64 * 1024  # no filling line is longer

_SMALLEST_FILLER_BYTES = 80
_FILLER = re.compile(rb'\{"p":[0-9]+,"t":0,"lost":([0-9]+) *\}')
_SEGMENT_NAME = re.compile(r"([0-9]{20})\.log\Z")
_STAMP = re.compile(rb'\{"p":([0-9]+),"t":([0-9]+),')
_OPENING = re.compile(rb'\{"p":[0-9]+,"t":[0-9]+,(?:"n":([0-9]+),)?(?:"k":"([^"]*)",)?')


def segment_name(first: int) -> str:
    return f"{first:020d}{SUFFIX}"


def segment_first(name: str) -> int | None:
    """The position a segment starts at, or None if the file is not a segment."""
    found = _SEGMENT_NAME.match(name)
    return int(found[1]) if found else None


def opening(count: int, key: str | None) -> bytes:
    """What the first line of a request says of the whole."""
    many = b'"n":%d,' % count if count > 1 else b""
    return many if key is None else b'%b"k":"%b",' % (many, key.encode())


def opened(body: bytes) -> tuple[int, str | None]:
    """How many lines the request has that begins with this one, and its key."""
    found = _OPENING.match(body)
    if found is None:
        raise ValueError("not a line of the publication log")
    return int(found[1] or 1), found[2].decode() if found[2] is not None else None


def encode(
    position: int, at_us: int, record: bytes, extra: bytes | None, opening: bytes = b""
) -> bytes:
    """A whole line, newline included."""
    if extra is None:
        body = b'{"p":%d,"t":%d,%b"r":%b}' % (position, at_us, opening, record)
    else:
        body = b'{"p":%d,"t":%d,%b"r":%b,"x":%b}' % (position, at_us, opening, record, extra)
    return b"%08x %b\n" % (crc32(body), body)


def decode(line: bytes, position: int) -> bytes | None:
    """The JSON of a line that starts at `position`, or None if it is not what was written there."""
    if len(line) <= FRAME_BYTES or not line.endswith(b"\n"):
        return None
    body = line[PREFIX_BYTES:-1]
    if line[:PREFIX_BYTES] != b"%08x " % crc32(body):
        return None
    return body if body.startswith(b'{"p":%d,' % position) else None


def stamp(body: bytes) -> tuple[int, int]:
    """Position and time of a line's JSON, without parsing the record."""
    found = _STAMP.match(body)
    if found is None:
        raise ValueError("not a line of the publication log")
    return int(found[1]), int(found[2])


def fillers(position: int, size_bytes: int, records: int) -> bytes | None:
    """Lines that fill so many bytes; None if these are too few. The first tells of the records."""
    filled = []
    while size_bytes > 0:
        taken = min(size_bytes, FILLER_BYTES)
        if 0 < size_bytes - taken < _SMALLEST_FILLER_BYTES:
            taken -= _SMALLEST_FILLER_BYTES
        text = b'{"p":%d,"t":0,"lost":%d' % (position, records)
        blanks = taken - FRAME_BYTES - len(text) - 1
        if blanks < 0:
            return None
        body = b"%b%b}" % (text, b" " * blanks)
        filled.append(b"%08x %b\n" % (crc32(body), body))
        position, size_bytes, records = position + taken, size_bytes - taken, 0
    return b"".join(filled)


def is_filler(body: bytes) -> bool:
    """Whether a line holds no record, since those that were there are lost."""
    return _FILLER.fullmatch(body) is not None
