"""Attachments at a client: uploaded from memory or files, read from a broker, checked by hash."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from tocsin.client.feed import Result
from tocsin.client.http import Http
from tocsin.errors import InvalidInput, Unavailable
from tocsin.model import Attachment, check_attachment_id

PIECE_BYTES = 256 * 1024
UNKNOWN_TYPE = "application/octet-stream"


class Upload:
    """Bytes on their way up; a file is read twice, first for its hash."""

    def __init__(self, source: str | Path | bytes, type: str | None, name: str | None) -> None:
        self._source = source if isinstance(source, bytes) else Path(source)
        if name is None and isinstance(self._source, Path):
            name = self._source.name
        self.name = name
        self.type = type or mimetypes.guess_type(name or "")[0] or UNKNOWN_TYPE

    async def hashed(self) -> Attachment:
        """What a record will say of it."""
        digest, size = hashlib.sha256(), 0
        async for piece in self.pieces():
            digest.update(piece)
            size += len(piece)
        return Attachment(digest.hexdigest(), size, self.type, self.name)

    async def pieces(self) -> AsyncIterator[bytes]:
        if isinstance(self._source, bytes):
            yield self._source
            return
        try:
            with await asyncio.to_thread(self._source.open, "rb") as file:
                while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise InvalidInput(
                f"cannot read {self._source}: {error.strerror}", field="path"
            ) from None


class AttachedFile:
    """An attachment of a result: `await file.read()`, or `async for piece in file`. `about` is what
    the result says of it. Whoever read it to its end has the right bytes."""

    def __init__(
        self, about: Attachment, result: Result, http: Callable[[], Awaitable[Http]]
    ) -> None:
        self.about = about
        self._result = result
        self._http = http

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self])

    async def save(self, path: str | Path) -> None:
        """Into a file, whole or not at all."""
        target = Path(path)
        aside = target.with_name(target.name + ".part")
        try:
            with await asyncio.to_thread(aside.open, "wb") as file:
                async for piece in self:
                    await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(aside.replace, target)
        finally:
            await asyncio.to_thread(aside.unlink, missing_ok=True)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        http = await self._http()
        led_by = f"subscription={self._result.subscription}&position={self._result.position}"
        digest = hashlib.sha256()
        async for piece in http.stream(f"/v1/attachments/{self.about.id}?{led_by}"):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != self.about.id:
            raise Unavailable(f"attachment {self.about.id} came damaged", hint="read it again")


def attached(result: Result, field: str) -> Attachment:
    """What a result says of the attachment in a field."""
    value: Any = result.value.get(field) if isinstance(result.value, dict) else None
    try:
        about = msgspec.convert(value, Attachment)
    except msgspec.ValidationError:
        raise InvalidInput(f"the result has no attachment in {field!r}", field=field) from None
    check_attachment_id(about.id)
    return about


def attached_fields(result: Result) -> list[str]:
    """The fields of a result that hold attachments, by their looks."""
    fields = []
    for field in result.value if isinstance(result.value, dict) else ():
        with contextlib.suppress(InvalidInput):
            attached(result, field)
            fields.append(field)
    return fields
