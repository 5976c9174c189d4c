"""Records a live broker into a file: the broker streams, we write.

Whatever ends it (time, Ctrl-C, the broker's death) the file is finished. A kill of ours leaves one
that is not, and can be read nevertheless.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
from msgspec import Struct

from tocsin.client.http import error_of
from tocsin.client.transport import HttpClient
from tocsin.errors import InvalidInput
from tocsin.lab.trace.events import RECORD
from tocsin.lab.trace.writing import EventWriter
from tocsin.protocol.trace import KEEP_ALIVE_S, MEDIA_TYPE, About

SILENCE_S = 5 * KEEP_ALIVE_S  # after which a broker counts as gone


class Cache(Struct, frozen=True):
    """What the broker tells of its cache, as far as a trace keeps it."""

    policy: str
    budget_bytes: int


class Recorded(Struct, frozen=True):
    events: int
    lost: int
    duration_s: float
    ended: str  # why


async def record(
    broker: str,
    token: str,
    path: Path,
    *,
    seconds: float | None = None,
    stop: asyncio.Event | None = None,
    progress: Callable[[int, float], None] = lambda events, at_s: None,
) -> Recorded:
    """Until `seconds` of the trace are over, `stop` is set, or the broker ends it."""
    url = broker.rstrip("/")
    headers = {"authorization": f"Bearer {token}"}
    timeout = httpx.Timeout(10.0, read=SILENCE_S)
    async with HttpClient(headers=headers, timeout=timeout) as http:
        cache = await _cache(http, url)
        async with http.stream("GET", f"{url}/v1/trace") as answer:
            if not answer.is_success:
                await answer.aread()
                raise error_of(answer)
            if answer.headers.get("content-type") != MEDIA_TYPE:
                raise InvalidInput(
                    f"{url} records in another format: {answer.headers.get('content-type')}",
                    field="broker",
                    hint="broker and lab must be of the same version",
                )
            about = About(
                recorded_at=time.time(), policy=cache.policy, budget_bytes=cache.budget_bytes
            )
            with EventWriter(path, about) as writer:
                return await _drain(answer, writer, seconds, stop or asyncio.Event(), progress)


async def _cache(http: httpx.AsyncClient, url: str) -> Cache:
    answer = await http.get(f"{url}/v1/cache")
    if not answer.is_success:
        raise error_of(answer)
    try:
        return msgspec.json.decode(answer.content, type=Cache)
    except msgspec.DecodeError:
        raise InvalidInput(f"{url} is not a broker's address", field="broker") from None


async def _drain(
    answer: httpx.Response,
    writer: EventWriter,
    seconds: float | None,
    stop: asyncio.Event,
    progress: Callable[[int, float], None],
) -> Recorded:
    chunks = answer.aiter_raw()
    stopping = asyncio.ensure_future(stop.wait())
    rest, ended = b"", None
    while ended is None:
        chunk, ended = await _next(chunks, stopping)
        rest += chunk
        whole = len(rest) - len(rest) % RECORD.itemsize
        records, rest = np.frombuffer(rest[:whole], RECORD), rest[whole:]
        if seconds is not None:
            if len(records) and records["at_s"][-1] >= seconds:
                ended = f"{seconds:g} s are over"
            records = records[records["at_s"] <= seconds]
        writer.write(records)
        progress(writer.events, writer.duration_s)
    stopping.cancel()
    return Recorded(writer.events, writer.lost, writer.duration_s, ended)


async def _next(
    chunks: AsyncIterator[bytes], stopping: asyncio.Future[Any]
) -> tuple[bytes, str | None]:
    """What came, and why nothing more comes, if so."""
    chunk: asyncio.Future[Any] = asyncio.ensure_future(anext(chunks))
    await asyncio.wait({chunk, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not chunk.done():
        chunk.cancel()
        return b"", "stopped"
    try:
        return chunk.result(), None
    except StopAsyncIteration:
        return b"", "the broker ended the recording"
    except httpx.HTTPError as error:
        return b"", f"the broker is gone: {str(error) or type(error).__name__}"
