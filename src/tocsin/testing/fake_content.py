"""The fake cluster's attachments: given out as tests wish, and counted."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from tocsin.errors import NotFound, Unavailable
from tocsin.model import Attachment
from tocsin.protocol.cluster import AttachmentReading
from tocsin.service.content import content_response
from tocsin.service.web import Call

PIECE_BYTES = 10_000


class FakeContent:
    def __init__(self) -> None:
        self.bytes: dict[str, bytes] = {}
        self.asked: list[str] = []  # GETs, in order
        self.gate = asyncio.Event()  # closed: it stops after the first half of each
        self.gate.set()
        self.forms: list[bytes] = []  # published, a record and its attachments each
        self.types: dict[str, str] = {}
        self.lost_uploads = 0  # so many more fail
        self.fields: dict[str, tuple[list[str], list[str]]] = {}  # channel -> attachments, keys

    def add(self, data: bytes, *, wrong: bytes | None = None) -> str:
        """Its id; `wrong` is given out in its place."""
        id = hashlib.sha256(data).hexdigest()
        self.bytes[id] = data if wrong is None else wrong
        return id

    def value(self, data: bytes) -> dict[str, Any]:
        return {"id": self.add(data), "size": len(data), "type": "image/png"}

    async def put(self, call: Call) -> Any:
        data = await call.bytes()
        if self.lost_uploads:
            self.lost_uploads -= 1
            raise Unavailable("the upload is lost, as the test wished")
        id, kind = self.add(data), call.request.headers["content-type"]
        self.types[id] = kind
        assert call.path["id"] in self.bytes
        return Attachment(id, len(data), kind)

    async def access(self, _: Call) -> AttachmentReading:
        return AttachmentReading(private=False)

    async def get(self, call: Call) -> Any:
        id = call.path["id"]
        if call.request.method == "GET":
            self.asked.append(id)
        if id not in self.bytes:
            raise NotFound(f"there is no attachment {id}", field="id")
        data = self.bytes[id]

        async def read(start: int, stop: int) -> AsyncIterator[bytes]:
            for at in range(start, stop, PIECE_BYTES):
                if at >= len(data) // 2:
                    await self.gate.wait()
                yield data[at : min(stop, at + PIECE_BYTES)]

        return content_response(call.request, id, len(data), read, 30.0)
