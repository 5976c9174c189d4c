"""multipart/form-data as it comes: parts, and the pieces of their bodies. Pure; holds little of it.

RFC 7578, as browsers and curl send it. Headers are read by the standard library.
"""

from __future__ import annotations

from email.message import Message
from email.parser import BytesHeaderParser
from typing import NamedTuple

from tocsin.errors import InvalidInput

KIND = "multipart/form-data"
MOST_HEADER_BYTES = 8 * 1024
MOST_BOUNDARY_CHARACTERS = 70


class Part(NamedTuple):
    """The beginning of a part; the pieces of its body follow."""

    name: str
    filename: str | None
    type: str | None


def is_form(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() == KIND


def boundary_of(content_type: str) -> bytes:
    told = Message()
    told["content-type"] = content_type
    found = told.get_boundary() or ""
    if not 0 < len(found) <= MOST_BOUNDARY_CHARACTERS or not found.isascii():
        raise _broken("its Content-Type names no boundary")
    return found.encode()


class Multipart:
    def __init__(self, boundary: bytes) -> None:
        self.whole = False  # its last boundary came
        self._mark = b"\r\n--" + boundary
        self._buffer = b"\r\n"  # the first boundary may stand at the very beginning
        self._in_body = False
        self._at_mark = False
        self._ignored = 0

    def feed(self, data: bytes) -> list[Part | bytes]:
        """What the next bytes tell: parts that begin, and pieces of the body of the last one."""
        self._buffer += data
        told: list[Part | bytes] = []
        while not self.whole and (self._head(told) if self._at_mark else self._body(told)):
            pass
        return told

    def _body(self, told: list[Part | bytes]) -> bool:
        """Up to the next mark, of which the end of the buffer may be the beginning."""
        at = self._buffer.find(self._mark)
        end = max(0, len(self._buffer) - len(self._mark) + 1) if at < 0 else at
        piece = self._buffer[:end]
        if self._in_body and piece:
            told.append(piece)
        elif not self._in_body:
            self._ignored += len(piece)
            if self._ignored > MOST_HEADER_BYTES:
                raise _broken("its first boundary does not come")
        self._buffer = self._buffer[end if at < 0 else at + len(self._mark) :]
        self._at_mark = at >= 0
        return self._at_mark

    def _head(self, told: list[Part | bytes]) -> bool:
        """The headers of a part, from the end of the mark's line; or the end of all."""
        if self._buffer.startswith(b"--"):
            self.whole = True
            return False
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MOST_HEADER_BYTES:
                raise _broken("the headers of a part do not end")
            return False
        line, _, headers = self._buffer[: end + 2].partition(b"\r\n")
        if line.strip():
            raise _broken("something follows a boundary")
        told.append(_part(headers))
        self._buffer = self._buffer[end + 4 :]
        self._at_mark, self._in_body = False, True
        return True


def _part(headers: bytes) -> Part:
    told = BytesHeaderParser().parsebytes(headers)
    name = told.get_param("name", header="content-disposition")
    if not isinstance(name, str) or not name:
        raise _broken("a part has no name")
    return Part(name, told.get_filename(), told.get("content-type"))


def _broken(why: str) -> InvalidInput:
    return InvalidInput(
        f"the body is not {KIND}: {why}",
        field="body",
        hint="such as curl -F record='{…}' -F photo=@flood.png",
    )
