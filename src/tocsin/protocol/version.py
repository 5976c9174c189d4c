"""Which version of the protocol a process speaks, and which it still understands.

Raise VERSION with every change that an older peer could not read (tests/protocol says which are),
and OLDEST when the code that understood older peers goes. A peer tells its version when it
connects: over HTTP in a header, in the query where no header can be set (a browser's WebSocket, a
link's hello), a broker in its `welcome` as well. The newer of two peers knows both versions, so it
is the one that refuses; whoever tells nothing is taken as they are.
"""

from __future__ import annotations

from tocsin.errors import InvalidInput, UpgradeRequired

VERSION = 1
OLDEST = 1

HEADER = "Tocsin-Protocol"
PARAMETER = "protocol"


def version_header() -> dict[str, str]:
    """What every call and every answer carries."""
    return {HEADER: str(VERSION)}


def check_peer(version: str | int | None, peer: str, own: str) -> None:
    """Raise if a peer is too old to be understood. `peer` and `own` are the names that the error
    tells: who speaks what, and which of the two to upgrade."""
    if version is None:
        return
    number = _number(version)
    if number < OLDEST:
        understood = f"{OLDEST} to {VERSION}" if OLDEST < VERSION else f"{OLDEST}"
        raise UpgradeRequired(
            f"{peer} speaks protocol {number}, {own} understands {understood}",
            field=HEADER,
            hint=f"upgrade {peer}",
        )


def _number(version: str | int) -> int:
    text = str(version)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise InvalidInput(
            f"{text[:20]!r} is no version of the protocol", field=HEADER, hint="such as 1"
        )
    return int(text)
