"""multipart/form-data as it comes: parts, and the pieces of their bodies. Holds headers alone.

python-multipart reads it, and bounds the headers: eight a part, of four kilobytes each. Here are
what a part is to us, and our errors.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from tocsin.errors import InvalidInput

KIND = "multipart/form-data"
MOST_BOUNDARY_BYTES = 70  # RFC 2046

# What it complains of is told to whoever sent it, and is no line of a service's log.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL + 1)


class Part(NamedTuple):
    """The beginning of a part; the pieces of its body follow."""

    name: str
    filename: str | None
    type: str | None


def is_form(content_type: str | None) -> bool:
    return parse_options_header(content_type)[0] == KIND.encode()


def boundary_of(content_type: str) -> bytes:
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not 0 < len(boundary) <= MOST_BOUNDARY_BYTES:
        raise _broken("its Content-Type names no boundary")
    return boundary


class Multipart:
    def __init__(self, boundary: bytes) -> None:
        self.whole = False  # its last boundary came
        self._begun = False
        self._parts_read: list[Part | bytes] = []
        self._headers: dict[bytes, bytes] = {}
        self._field, self._value = bytearray(), bytearray()
        self._parser = MultipartParser(
            boundary,
            {
                "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header,
                "on_headers_finished": self._part,
                "on_part_data": lambda data, start, end: self._parts_read.append(data[start:end]),
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> list[Part | bytes]:
        """What the next bytes tell: parts that begin, and pieces of the body of the last one."""
        if not self._begun:  # it would pass over what follows empty lines, by how that is cut
            data = data.lstrip(b"\r\n")
            self._begun = bool(data)
        try:
            self._parser.write(data)
        except MultipartParseError as error:
            raise _broken(str(error)) from None
        events, self._parts_read = self._parts_read, []
        return events

    def _header(self) -> None:
        self._headers[bytes(self._field.lower())] = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def _part(self) -> None:
        headers, self._headers = self._headers, {}
        options = parse_options_header(headers.get(b"content-disposition"))[1]
        name, filename = _text(options.get(b"name")), _text(options.get(b"filename"))
        if not name:
            raise _broken("a part has no name")
        self._parts_read.append(Part(name, filename, _text(headers.get(b"content-type"))))

    def _end(self) -> None:
        self.whole = True


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _broken(why: str) -> InvalidInput:
    return InvalidInput(
        f"the body is not {KIND}: {why}",
        field="body",
        hint="such as curl -F record='{…}' -F photo=@flood.png",
    )
