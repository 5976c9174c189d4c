"""Records that a channel's query failed on become its dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from tocsin.intake.dead_letters import dead_letter
from tocsin.spark.asking import Record


def letters_of(
    channel: str, records: Iterable[tuple[Record, str]], cause: str
) -> tuple[list[bytes], str]:
    """Their dead letters, and the key under which these are appended: the same records are buried
    once, however often it is tried."""
    letters = [
        dead_letter(
            record.dataset,
            f"channel {channel}",
            reason=cause,
            record=text,
            line=record.position,
        )
        for record, text in records
    ]
    first = letters[0].decode() if letters else ""
    content = msgspec.json.encode([channel, cause, first, len(letters)])
    return letters, blake2b(content, digest_size=16).hexdigest()
