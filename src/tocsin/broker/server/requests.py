"""From a client's bytes to a typed request, or to an error that names what was wrong."""

from __future__ import annotations

import re

import msgspec

from tocsin.errors import InvalidInput
from tocsin.protocol import client as frames
from tocsin.protocol.nesting import WRAPPED_DEPTH, too_deep

OPS = "subscribe, unsubscribe, get, get_many, ack, ack_many, publish, ping"


class Malformed(Exception):
    """Bytes that are no request. `fatal`: what follows on this connection cannot be trusted."""

    def __init__(self, error: InvalidInput, ref: frames.Ref | None, fatal: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.ref = ref
        self.fatal = fatal


def parse(data: bytes) -> frames.Request:
    if too_deep(data, WRAPPED_DEPTH):
        reason = f"the frame nests deeper than {WRAPPED_DEPTH} levels"
        wrong = InvalidInput(reason, field="frame")
        raise Malformed(wrong, None, fatal=True)
    try:
        return frames.decode_request(data)
    except msgspec.ValidationError as error:
        raise _explain(data, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        wrong = InvalidInput(f"the frame is not JSON: {error}", field="frame")
        raise Malformed(wrong, None, fatal=True) from None


def _explain(data: bytes, reason: str) -> Malformed:
    """The fields were wrong. Only now is it worth reading the frame a second time, loosely."""
    try:
        loose = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):  # what is wrong came before its end
        loose = None
    if not isinstance(loose, dict):
        wrong = InvalidInput("a frame is a JSON object", field="frame")
        return Malformed(wrong, None, fatal=True)
    ref = loose.get("ref")
    known_ref = ref if isinstance(ref, (int, str)) and not isinstance(ref, bool) else None
    named = re.search(r"`\$\.(\w+)|field `(\w+)`", reason)
    field = (named[1] or named[2]) if named else None
    if field == "op":
        message = f"no operation is called {repr(loose.get('op'))[:60]}"
        return Malformed(InvalidInput(message, field="op", hint=f"one of {OPS}"), known_ref, False)
    return Malformed(
        InvalidInput(f"the frame does not fit: {reason}", field=field), known_ref, False
    )
