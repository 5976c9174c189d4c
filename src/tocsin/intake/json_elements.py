"""The elements of a JSON array, found one after the other without decoding the array as a whole.

Decoding a large array in one call would hold Python's lock for seconds, and make all its values at
once. Here strings and brackets are passed over, so that each element can be decoded by itself.
Whether an element is JSON, its decoder says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_GAP = re.compile(rb"[ \t\r\n]*+")
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = re.compile(rb'(?:[^"\[\]{},]++|' + _STRING + rb")*+", re.DOTALL)
_INNER = re.compile(rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+", re.DOTALL)
_WINDOW = 1024 * 1024  # how far is looked in one go; what is longer is looked at again


class Element(NamedTuple):
    """Where an element stands, and how deep it nests."""

    start: int
    end: int
    depth: int


class BrokenArrayError(ValueError):
    """What follows is no array; the message says where."""


def first_byte(body: bytes) -> bytes:
    """The first one that is no white space."""
    at = _gap(body, 0)
    return body[at : at + 1]


def elements(body: bytes) -> Iterator[Element]:
    """Of a body that begins with [."""
    at = _gap(body, 0) + 1
    first = _gap(body, at)
    if body[first : first + 1] == b"]":
        _expect_end(body, first + 1)
        return
    while True:
        start = at
        at, depth = _passed(body, start)
        yield Element(start, at, depth)
        sign = body[at : at + 1]
        if sign == b"]":
            _expect_end(body, at + 1)
            return
        if sign != b",":
            raise BrokenArrayError(f"expected ',' or ']' (byte {at})")
        at += 1


def _passed(body: bytes, at: int) -> tuple[int, int]:
    """Where the element that begins here ends, and its depth."""
    depth = deepest = 0
    window = _WINDOW
    while True:
        plain = _INNER if depth else _FLAT
        stop = at + window
        match = plain.match(body, at, stop)
        assert match is not None  # it matches nothing as well
        end = match.end()
        sign = body[end : end + 1]
        if sign == b'"' and stop < len(body):  # a string that is longer than the window
            at, window = end, window * 2
            continue
        if end == stop:
            at = end
            continue
        window = _WINDOW
        if sign in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif sign in (b"]", b"}") and depth:
            depth -= 1
        elif sign == b'"':
            raise BrokenArrayError(f"a string is not closed (byte {end})")
        elif not sign:
            raise BrokenArrayError("it is cut short")
        else:
            return end, deepest
        at = end + 1


def _gap(body: bytes, at: int) -> int:
    match = _GAP.match(body, at)
    assert match is not None
    return match.end()


def _expect_end(body: bytes, at: int) -> None:
    if _gap(body, at) != len(body):
        raise BrokenArrayError(f"something follows behind the end (byte {at})")
