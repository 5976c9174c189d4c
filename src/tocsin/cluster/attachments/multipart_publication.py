"""A record and its attachments in one request: multipart/form-data with a part `record` (JSON) and
a part for each column of type ATTACHMENT that it fills.

Nothing is stored before all of it has come and the record is known to fit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from starlette.requests import ClientDisconnect

from tocsin.cluster.attachments.attachment_store import AttachmentStore
from tocsin.cluster.attachments.receiving import Receiving, cut_short
from tocsin.errors import InvalidInput, TooLarge
from tocsin.intake.formats import RawRecord, read
from tocsin.model import Dataset, attachments_of
from tocsin.service.content import media_type
from tocsin.service.multipart import Multipart, Part, boundary_of
from tocsin.service.web import Call

RECORD = "record"


class Announced:
    """Attachments that have come, for a look whether the record fits."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes

    def hold(self, ids: Iterable[str]) -> None: ...
    def release(self, ids: Iterable[str]) -> None: ...
    def size_bytes(self, id: str) -> int | None:
        return self._sizes.get(id)


class MultipartPublication:
    """Of one request. `discard` ends it, whatever became of it."""

    def __init__(
        self,
        dataset: Dataset,
        attachments: AttachmentStore,
        limit_bytes: int,
        record_limit_bytes: int,
    ) -> None:
        self._columns = attachments_of(dataset)
        self._dataset = dataset.name
        self._attachments = attachments
        self._limit_bytes = limit_bytes
        self._record_limit_bytes = record_limit_bytes
        self._record: bytearray | None = None
        self._files: dict[str, tuple[Part, Receiving]] = {}

    async def receive(self, call: Call) -> RawRecord:
        """The record, with what it says of its attachments."""
        parser = Multipart(boundary_of(call.request.headers["content-type"]))
        part: Part | None = None
        try:
            async for data in call.request.stream():
                for event in parser.feed(data):
                    if isinstance(event, Part):
                        part = event
                        await self._begin(part)
                    else:
                        assert part is not None
                        await self._add(part, event)
        except ClientDisconnect:
            raise cut_short() from None
        if not parser.whole:
            raise cut_short()
        for _, receiving in self._files.values():
            await receiving.flush()
        return self._raw_record()

    def announced(self) -> Announced:
        files = (receiving.incoming for _, receiving in self._files.values())
        return Announced({incoming.id: incoming.size_bytes for incoming in files})

    async def commit(self) -> None:
        for _, receiving in self._files.values():
            await asyncio.to_thread(self._attachments.commit, receiving.incoming, None)

    async def discard(self) -> None:
        for _, receiving in self._files.values():
            await receiving.discard()

    async def _begin(self, part: Part) -> None:
        if part.name == RECORD:
            if self._record is not None:
                raise InvalidInput("there are two records", field=RECORD, hint="one a request")
            self._record = bytearray()
            return
        if part.name not in self._columns:
            raise InvalidInput(
                f"{self._dataset} has no column {part.name!r} of type ATTACHMENT",
                field=part.name,
                hint=f"parts are called {', '.join((RECORD, *self._columns))}",
            )
        if part.name in self._files:
            raise InvalidInput("it is there twice", field=part.name)
        incoming = await asyncio.to_thread(self._attachments.content.receive)
        self._files[part.name] = part, Receiving(incoming, self._limit_bytes, part.name)

    async def _add(self, part: Part, data: bytes) -> None:
        if part.name != RECORD:
            await self._files[part.name][1].add(data)
            return
        assert self._record is not None
        self._record += data
        if len(self._record) > self._record_limit_bytes:
            raise TooLarge(f"a record has at most {self._record_limit_bytes} bytes", field=RECORD)

    def _raw_record(self) -> RawRecord:
        if self._record is None:
            raise InvalidInput("there is no record", field=RECORD, hint="a part of that name: JSON")
        records = list(read(bytes(self._record), "json"))
        if len(records) != 1 or not isinstance(records[0], RawRecord):
            raise InvalidInput("the record is not one JSON object", field=RECORD)
        fields: dict[str, Any] = dict(records[0].fields)
        for column, (part, receiving) in self._files.items():
            if fields.get(column) is not None:
                raise InvalidInput("it is in the record and a part as well", field=column)
            incoming = receiving.incoming
            kind = media_type((part.type or "").partition(";")[0].strip() or None)
            fields[column] = {"id": incoming.id, "size": incoming.size_bytes, "type": kind}
            if part.filename is not None:
                fields[column]["name"] = part.filename
        return RawRecord(1, fields)
