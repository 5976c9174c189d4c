"""`ContentStore`: bytes in and out, checked against their hash. All calls may wait for disks
and networks, and may come from any thread; Unavailable if the medium cannot be reached."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import structlog

from tocsin.errors import InvalidInput, NotFound, Unavailable
from tocsin.model import check_attachment_id
from tocsin.storage.content.claim import Claim
from tocsin.storage.content.port import Kept, Medium

log = structlog.get_logger()


class Incoming:
    """Bytes that come in, aside. Nothing of them is in the store before `commit`; exactly one of
    `commit` and `discard` ends it, and a second `discard` does nothing."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        self._path = medium.incoming / f"{uuid.uuid4().hex}.part"
        self._file: BinaryIO | None = self._path.open("xb")
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    @property
    def id(self) -> str:
        """Of what came so far."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)

    def commit(self, wanted: str | None = None) -> tuple[str, bool]:
        """The id, and whether the bytes are new here. `wanted` is what the id must be."""
        assert self._file is not None
        digest = self.id
        try:
            if wanted is not None and digest != wanted:
                raise InvalidInput(
                    f"the SHA-256 of the {self.size_bytes} bytes that came is {digest}",
                    field="id",
                    hint="send them whole, under the hash of what you send",
                )
            self._file.flush()
            os.fsync(self._file.fileno())
            known = self._medium.info(digest) is not None
            self._medium.take(self._path, digest)  # also if known: it mends what is damaged
        finally:
            self.discard()
        return digest, not known

    def discard(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # what it still holds may find no room
                file.close()


class ContentStore:
    def __init__(self, medium: Medium, claim: Claim | None = None) -> None:
        """What a crash left aside is deleted: one cluster alone writes here, and `claim` says
        whether this one. A medium that cannot be reached yet is asked later."""
        self._medium = medium
        self._claim = claim
        if claim is not None:
            with contextlib.suppress(Unavailable):
                claim.make()
        medium.incoming.mkdir(parents=True, exist_ok=True)
        for left in medium.incoming.glob("*.part"):
            left.unlink(missing_ok=True)

    @property
    def incoming(self) -> Path:
        return self._medium.incoming

    def receive(self) -> Incoming:
        if self._claim is not None:
            self._claim.require()
        return Incoming(self._medium)

    def put(self, data: bytes) -> str:
        """Small content at once; its id."""
        incoming = self.receive()
        try:
            incoming.write(data)
            return incoming.commit()[0]
        finally:
            incoming.discard()

    def info(self, id: str) -> Kept | None:
        return self._medium.info(check_attachment_id(id))

    def read(self, id: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes in [start, stop), in pieces. Read whole, they are checked: the last piece only
        comes if all are what their id says. Else the content is dropped, and NotFound raised."""
        kept = self.info(id)
        if kept is None:
            raise unknown(id)
        return self.read_kept(kept, start, kept.size_bytes if stop is None else stop)

    def read_kept(self, kept: Kept, start: int, stop: int) -> Iterator[bytes]:
        """The same of content that was just looked for."""
        stop = min(stop, kept.size_bytes)
        check = hashlib.sha256() if start == 0 and stop == kept.size_bytes else None
        held = b""
        try:
            for piece in self._medium.read(kept.id, start, stop):
                start += len(piece)
                if check is None:
                    yield piece
                    continue
                check.update(piece)
                if held:
                    yield held
                held = piece
        except FileNotFoundError:
            raise unknown(kept.id) from None
        if start < stop or (check is not None and check.hexdigest() != kept.id):
            if self._claim is None or self._claim.may_delete(kept):
                self._medium.drop(kept.id)
            log.error("an attachment was damaged, and is dropped", attachment=kept.id)
            raise NotFound(
                f"attachment {kept.id} was damaged, and has been dropped",
                field="id",
                hint="upload the same bytes again: records that mention it are whole then",
            )
        if held:
            yield held

    def drop(self, id: str) -> None:
        self._medium.drop(check_attachment_id(id))

    def kept(self) -> Iterator[Kept]:
        """All content, as far as it is ours to delete."""
        if self._claim is None:
            return self._medium.kept()
        self._claim.require(anew=True)
        return filter(self._claim.may_delete, self._medium.kept())


def unknown(id: str) -> NotFound:
    return NotFound(f"there is no attachment {id}", field="id", hint="upload its bytes first")
