"""The routes of attachments: bytes come in by streams, are checked, and go out by ranges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec import UNSET
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tocsin.cluster.attachments.access import FREE, AttachmentAccess
from tocsin.cluster.attachments.attachment_store import AttachmentStore
from tocsin.cluster.attachments.receiving import Receiving, cut_short, too_large
from tocsin.cluster.throttle import Throttle
from tocsin.errors import QuotaExceeded, TocsinError
from tocsin.model import Attachment, check_attachment_id
from tocsin.protocol.cluster import AttachmentReading
from tocsin.protocol.queries import LedByQuery
from tocsin.service.content import ANY_BYTES, content_response, media_type
from tocsin.service.on_behalf import on_behalf_of
from tocsin.service.tokens import Identity
from tocsin.service.web import Call, Route, error_response, json_response
from tocsin.storage.content import unknown

STALL_S = 30.0


class AttachmentCalls:
    def __init__(
        self,
        attachments: AttachmentStore,
        access: AttachmentAccess,
        throttle: Throttle,
        limit_bytes: int,
    ) -> None:
        self._attachments = attachments
        self._access = access
        self._throttle = throttle
        self._content = attachments.content
        self._limit_bytes = limit_bytes

    async def put(self, call: Call) -> Response:
        return await self._receive(call, check_attachment_id(call.path["id"]))

    async def post(self, call: Call) -> Response:
        return await self._receive(call, None)

    async def get(self, call: Call) -> Response:
        id = check_attachment_id(call.path["id"])
        if not call.identity.scopes & FREE:
            await self._checked(call, id, call.identity)
        kept = await asyncio.to_thread(self._content.info, id)
        if kept is None:
            raise unknown(id)

        def read(start: int, stop: int) -> AsyncIterator[bytes]:
            return iterate_in_threadpool(self._content.read_kept(kept, start, stop))

        return content_response(call.request, id, kept.size_bytes, read, STALL_S)

    async def access(self, call: Call) -> AttachmentReading:
        """A broker asks for who reads at it."""
        id = check_attachment_id(call.path["id"])
        reader = await on_behalf_of(call)
        return AttachmentReading(private=await self._checked(call, id, reader))

    async def _checked(self, call: Call, id: str, reader: Identity | None) -> bool:
        query = call.query(LedByQuery)
        subscription = None if query.subscription is UNSET else query.subscription
        position = None if query.position is UNSET else query.position
        return await asyncio.to_thread(self._access.check, reader, id, subscription, position)

    async def _receive(self, call: Call, wanted: str | None) -> Response:
        try:
            kind = media_type(
                call.request.headers.get("content-type", "").partition(";")[0] or None
            )
            announced = call.announced_bytes
            if announced is not None and announced > self._limit_bytes:
                raise too_large(self._limit_bytes, "body")
            self._throttle.upload(call.identity, 0, announced)
            incoming = await asyncio.to_thread(self._content.receive)
            receiving = Receiving(incoming, self._limit_bytes)
            try:
                await _read(call, receiving)
                if announced not in (None, incoming.size_bytes):
                    raise cut_short()
                id, new = await asyncio.to_thread(self._attachments.commit, incoming, wanted)
            finally:
                await receiving.discard()
        except TocsinError as error:
            return refused_upload(error)
        return json_response(Attachment(id, incoming.size_bytes, kind), 201 if new else 200)


def refused_upload(error: TocsinError) -> Response:
    refused = error_response(error)
    refused.headers["connection"] = "close"  # so much may still come that it is not read
    return refused


async def _read(call: Call, receiving: Receiving) -> None:
    try:
        async for part in call.request.stream():
            await receiving.add(part)
    except ClientDisconnect:
        raise cut_short() from None
    await receiving.flush()


def attachment_routes(calls: AttachmentCalls) -> list[Route]:
    path = "/v1/attachments/{id}"
    return [
        Route(
            "POST",
            "/v1/attachments",
            calls.post,
            ("publish",),
            "upload an attachment; the answer is what a record says of it",
            ANY_BYTES,
            Attachment,
            201,
            also={200: Attachment},
            errors=(QuotaExceeded,),
            limit_bytes=None,
        ),
        Route(
            "PUT",
            path,
            calls.put,
            ("publish",),
            "the same under the SHA-256 of its bytes, which is checked",
            ANY_BYTES,
            Attachment,
            201,
            also={200: Attachment},
            errors=(QuotaExceeded,),
            limit_bytes=None,
        ),
        Route(
            "GET",
            path,
            calls.get,
            ("broker", "subscribe"),
            "an attachment's bytes",
            answers=ANY_BYTES,
            also={206: ANY_BYTES, 304: None},
            query=LedByQuery,
        ),
        Route(
            "GET",
            path + "/access",
            calls.access,
            ("broker", "subscribe"),
            "whether a subscriber may read an attachment, which a result led to",
            answers=AttachmentReading,
            query=LedByQuery,
        ),
    ]
