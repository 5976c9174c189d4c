"""A match of a channel in real-time mode: a message of the topic of matches, version 1.

Spark writes it, keyed by the backend subscription; the cluster reads it and stores a result. The
value is JSON: `{"c":"alerts","b":7,"p":480,"v":{…}}`. It carries no version: one without is of
version 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from tocsin.protocol.fields import Number
from tocsin.protocol.unreadable import readable

VERSION = 1
_T = TypeVar("_T")


class MatchMessage(Struct, frozen=True):
    channel: str = field(name="c")
    backend: Number = field(name="b")  # whom it is for
    position: Number = field(name="p")  # of the record that matched, in its dataset's log
    payload: Raw = field(name="v")  # the result, a JSON object


_decode = readable(msgspec.json.Decoder(MatchMessage).decode)
_decode_payload = readable(msgspec.json.Decoder(dict).decode)


def decode_match(value: bytes) -> MatchMessage:
    """Raises msgspec.DecodeError for what somebody else wrote to the topic: of a match of ours the
    payload can be read, too."""
    match = _decode(value)
    _decode_payload(bytes(match.payload))
    return match


def match_template(
    text: Callable[[str], _T], *, channel: _T, backend: _T, position: _T, payload: _T
) -> list[_T]:
    """The pieces of a value, for an engine that joins them itself: the JSON between the fields, as
    `text` makes pieces of it, and the JSON of each field as that engine's own expression."""
    values = {"channel": channel, "backend": backend, "position": position, "payload": payload}
    pieces: list[_T] = []
    for info in msgspec.structs.fields(MatchMessage):
        pieces += [text(f'{"," if pieces else "{"}"{info.encode_name}":'), values[info.name]]
    return [*pieces, text("}")]
