"""Calls to the data cluster: statements, and publications from memory or from files."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tocsin.client.attachments import Upload
from tocsin.client.http import Http, Token
from tocsin.errors import InvalidInput, RecordError
from tocsin.model import Attachment
from tocsin.protocol import numbers
from tocsin.protocol.publishing import Published, StatementResult, StatementResults, Statements

JSON = {"content-type": "application/json"}
CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
}


class Cluster:
    """The cluster's API for applications. Publishing needs the scope publish, statements admin."""

    def __init__(
        self, url: str, token: Token | None, timeout_s: float = 60.0, authority: str = ""
    ) -> None:
        """`url`: of the cluster, or of gateways; of several of these, any is begun with."""
        self._http = Http(url, token, timeout_s, authority, spread=Random())

    async def close(self) -> None:
        await self._http.close()

    async def sql(self, text: str, key: str | None = None) -> list[StatementResult]:
        """Run statements; one result for each. Not sent again once the cluster may have it.

        With a `key`, the same text may be sent again, and its INSERTs are taken once.
        """
        answer = await self._http.call(
            "POST",
            "/v1/statements",
            StatementResults,
            content=msgspec.json.encode(Statements(text)),
            headers=JSON if key is None else {**JSON, "idempotency-key": key},
            repeatable=False,
        )
        return answer.results

    async def publish(
        self,
        dataset: str,
        records: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        key: str | None = None,
    ) -> Published:
        """Publish one record or many; they are durable when this returns.

        If an answer is lost on the way, they are sent again under the same key, and the cluster
        takes them once. Give a `key` to do so yourself.
        """
        many = [records] if isinstance(records, Mapping) else records
        body = b"\n".join(numbers.encode(record) for record in many)
        if not body:
            return Published(accepted=0)
        return await self._publish(dataset, body, "application/x-ndjson", key)

    async def publish_file(
        self, dataset: str, path: str | Path, key: str | None = None
    ) -> Published:
        """Publish a file: JSON, JSON lines, CSV (with a header line) or Parquet, by its suffix.

        Sent again after a lost answer, and taken once, as with `publish`.
        """
        file = Path(path)
        kind = CONTENT_TYPES.get(file.suffix.lower())
        if kind is None:
            raise InvalidInput(
                f"cannot tell what {file.name} holds",
                field="path",
                hint=f"name it with one of {', '.join(CONTENT_TYPES)}",
            )
        try:
            body = await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            raise InvalidInput(f"cannot read {file}: {error.strerror}", field="path") from None
        return await self._publish(dataset, body, kind, key)

    async def upload(
        self, source: str | Path | bytes, type: str | None = None, name: str | None = None
    ) -> dict[str, Any]:
        """Upload a file, or bytes; the answer is the value that a record's column takes. Equal
        bytes are stored once, so that it can be repeated at will."""
        upload = Upload(source, type, name)
        about = await upload.hashed()
        headers = {"content-type": about.type, "content-length": str(about.size)}
        path = f"/v1/attachments/{about.id}"
        await self._http.call(
            "PUT", path, Attachment, content=upload.pieces, headers=headers, repeatable=True
        )
        value: dict[str, Any] = msgspec.to_builtins(about)
        return value

    async def _publish(self, dataset: str, body: bytes, kind: str, key: str | None) -> Published:
        published = await self._http.call(
            "POST",
            f"/v1/datasets/{dataset}/records",
            Published,
            content=body,
            headers={"content-type": kind, "idempotency-key": key or uuid.uuid4().hex},
            repeatable=True,
            also=(422,),  # nothing fitted: the body says why, record by record
        )
        if published.accepted == 0 and published.rejected:
            first = published.errors[0] if published.errors else None
            reason = f"line {first.line}: {first.reason}" if first else "see its dead letters"
            raise RecordError(
                f"none of {published.rejected} records fits {dataset}: {reason}",
                field=first.field if first else None,
            )
        return published
