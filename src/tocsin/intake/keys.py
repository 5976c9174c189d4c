"""By what a request is known again when its publisher repeats it."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from tocsin.errors import InvalidInput

MOST_KEY_CHARACTERS = 255


def request_key(given: str, publisher: str, kind: str, body: bytes) -> str:
    """By what a request is known again: the key it came with, and all else that it says."""
    return key_of(given, publisher, kind, blake2b(body).hexdigest())


def key_of(given: str, publisher: str, kind: str, digest: str) -> str:
    """The same, if the hash of all else is known."""
    if not 0 < len(given) <= MOST_KEY_CHARACTERS:
        raise InvalidInput(
            f"an Idempotency-Key has 1 to {MOST_KEY_CHARACTERS} characters", field="Idempotency-Key"
        )
    content = msgspec.json.encode([given, publisher, kind, digest])
    return blake2b(content, digest_size=16).hexdigest()
