"""Key sets: the document that lists public keys, read by services and edited by `tocsin keys`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from tocsin.errors import InvalidInput, NotFound
from tocsin.protocol.keys import KeySet
from tocsin.service.keys.files import write_whole
from tocsin.service.keys.jwk import NoKey, VerificationKey, verification_key

log = structlog.get_logger()

MOST_BYTES = 1 << 20
Keys = Mapping[str, VerificationKey]


class NoKeySet(ValueError):
    """Why a document is not to be trusted with anything."""


def read_key_set(body: bytes, *, strict: bool) -> Keys:
    """The keys of a document by their kid. `strict`: it is ours, and must be without fault; what a
    provider lists beside (other kinds of keys, for other uses) is passed over."""
    try:
        entries = msgspec.json.decode(body, type=KeySet).keys
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NoKeySet(f"it is not a key set: {error}") from None
    keys: dict[str, VerificationKey] = {}
    for number, entry in enumerate(entries, 1):
        try:
            key = verification_key(entry)
        except NoKey as error:
            if strict:
                raise NoKeySet(f"key {number} of it is of no use: {error}") from None
            log.debug("a key is passed over", number=number, reason=str(error))
            continue
        if key.id in keys:
            raise NoKeySet(f"two keys of it have the kid {key.id!r}")
        keys[key.id] = key
    return keys


class KeySetFile:
    """A key set in a file, for those who edit it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> list[dict[str, Any]]:
        try:
            body = self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidInput(
                f"cannot read {self._path}: {error.strerror}", field="file"
            ) from None
        return _checked(body, self._path)

    def add(self, entry: Mapping[str, Any]) -> VerificationKey:
        try:
            key = verification_key(entry)
        except NoKey as error:
            raise InvalidInput(f"this key cannot be added: {error}", field="key") from None
        entries = self.entries()
        if any(known["kid"] == key.id for known in entries):
            raise InvalidInput(
                f"there is a key {key.id!r} already", field="kid", hint="remove that one first"
            )
        self._write([*entries, dict(entry)])
        return key

    def remove(self, kid: str) -> None:
        entries = self.entries()
        left = [entry for entry in entries if entry["kid"] != kid]
        if len(left) == len(entries):
            names = ", ".join(entry["kid"] for entry in entries) or "none"
            raise NotFound(f"{self._path} has no key {kid!r}", field="kid", hint=f"it has {names}")
        self._write(left)

    def _write(self, entries: list[dict[str, Any]]) -> None:
        write_whole(self._path, json.dumps({"keys": entries}, indent=1) + "\n", mode=0o644)


def _checked(body: bytes, path: Path) -> list[dict[str, Any]]:
    try:
        read_key_set(body, strict=True)
    except NoKeySet as error:
        raise InvalidInput(f"{path}: {error}", field="file") from None
    return msgspec.json.decode(body, type=KeySet).keys
