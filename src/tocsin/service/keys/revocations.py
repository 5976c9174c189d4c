"""What is no longer taken, however good its signature: keys, subjects, single tokens.

A service knows those of its file and those that it was told of; what is in either is revoked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from tocsin.errors import InvalidInput, SettingError
from tocsin.protocol.keys import RevocationChange, Revoked
from tocsin.service.keys.files import WatchedFile, write_whole

log = structlog.get_logger()

FILE = "revoked.json"
MOST_TEXTS = 100_000
LONGEST_TEXT = 1000


class Revocations:
    """All that are revoked. `version` grows with each change."""

    def __init__(self, path: Path | None) -> None:
        """`path`: a file that may come later, and is followed."""
        self.version = 0
        self._path = path
        self._file = None if path is None else WatchedFile(path)
        self._spoilt = ""
        self._own = self._heard = Revoked()
        self._sets = _sets()
        if self._file is None:
            return
        try:
            body = self._file.changed()
            if body is not None:
                self._own = msgspec.json.decode(body, type=Revoked)
                self._merge()
        except (OSError, msgspec.DecodeError) as error:
            raise SettingError(
                f"cannot read what is revoked, {path}: {error}", field="revocations"
            ) from None

    @property
    def all(self) -> Revoked:
        """For other services."""
        keys, subjects, tokens = (sorted(texts) for texts in self._sets)
        return Revoked(keys, subjects, tokens)

    def reason(self, key_id: str, subject: str, claims: Mapping[str, Any]) -> str | None:
        """Why a token is not taken; None: it is."""
        keys, subjects, tokens = self._sets
        if key_id in keys:
            return "the token's key was revoked"
        if subject in subjects:
            return f"all tokens of {subject!r} were revoked"
        if claims.get("jti") in tokens:
            return "the token was revoked"
        return None

    def poll(self) -> None:
        """To be called regularly. A file that is spoilt, or gone, changes nothing."""
        if self._file is None:
            return
        try:
            body = self._file.changed()
            if body is None:
                return
            self._own = msgspec.json.decode(body, type=Revoked)
        except (OSError, msgspec.DecodeError) as error:
            if str(error) != self._spoilt:
                self._spoilt = str(error)
                log.error(
                    "what is revoked cannot be read", file=str(self._path), reason=self._spoilt
                )
            return
        self._spoilt = ""
        self._merge()

    def heard(self, revoked: Revoked) -> None:
        """What another service knows; the next word replaces it."""
        if revoked != self._heard:
            self._heard = revoked
            self._merge()

    def write(self, change: RevocationChange) -> None:
        """Change the file, which others may follow too. Blocks; for one caller at a time."""
        if self._path is None:
            raise InvalidInput("this service keeps no revocations", field="revocations")
        write_revoked(self._path, changed_by(read_revoked(self._path), change))

    def _merge(self) -> None:
        before, self._sets = self._sets, _sets(self._own, self._heard)
        if before != self._sets:
            self.version += 1
            log.info("revocations changed", revoked=sum(map(len, self._sets)))


def read_revoked(path: Path) -> Revoked:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Revoked)
    except FileNotFoundError:
        return Revoked()
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"cannot read what is revoked, {path}: {error}", field="file") from None


def write_revoked(path: Path, revoked: Revoked) -> None:
    text = msgspec.json.format(msgspec.json.encode(revoked), indent=1).decode() + "\n"
    write_whole(path, text, mode=0o600)


def changed_by(revoked: Revoked, change: RevocationChange) -> Revoked:
    fields: dict[str, list[str]] = {}
    for field in Revoked.__struct_fields__:
        more, less = getattr(change.revoke, field), getattr(change.restore, field)
        if any(not text or len(text) > LONGEST_TEXT for text in more):
            raise InvalidInput(f"each has 1 to {LONGEST_TEXT} characters", field=field)
        texts = (set(getattr(revoked, field)) | set(more)) - set(less)
        if len(texts) > MOST_TEXTS:
            raise InvalidInput(f"at most {MOST_TEXTS} can be revoked", field=field)
        fields[field] = sorted(texts)
    return Revoked(**fields)


_Sets = tuple[frozenset[str], frozenset[str], frozenset[str]]


def _sets(*revoked: Revoked) -> _Sets:
    keys, subjects, tokens = (
        frozenset(text for part in revoked for text in getattr(part, field))
        for field in Revoked.__struct_fields__
    )
    return keys, subjects, tokens
