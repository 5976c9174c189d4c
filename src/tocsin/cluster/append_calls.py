"""What gateways hand on: publications that they have checked and encoded, many in one call.

Here it is decided who may publish, how much, and whether the dataset is still the one that the
records were checked against; then the log takes them. Each request has an outcome of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any

import msgspec
from starlette.responses import Response

from tocsin.cluster.cluster import Cluster
from tocsin.cluster.intake import Appending
from tocsin.errors import InvalidInput, TocsinError, is_bug
from tocsin.intake.dead_letters import Encoded
from tocsin.intake.sorting import Sorted
from tocsin.model import attachments_of
from tocsin.protocol.appends import (
    MESSAGE_PACK,
    Append,
    AppendOutcome,
    AppendOutcomes,
    Appends,
)
from tocsin.protocol.failure import error_info
from tocsin.service.openapi import Media
from tocsin.service.tokens import Identity
from tocsin.service.web import Call, Route

AT_ONCE_BYTES = 256 * 1024
"""A call up to here is decoded on the event loop: some milliseconds' work."""

Outcome = Appending | AppendOutcome

_decoder = msgspec.msgpack.Decoder(Appends)
_encoder = msgspec.msgpack.Encoder()
_STALE = AppendOutcome(stale=True)


class AppendCalls:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._catalog = cluster.store.catalog
        self._permissions = cluster.permissions
        self._throttle = cluster.throttle

    async def append(self, call: Call) -> Response:
        with self._cluster.large_bodies.taking(call.identity.subject) as taking:
            body = await call.bytes(taking.more)
            given = await _decoded(body)
            del body
            identities = [await _identified(call, token) for token in given.tokens]
            begun = [await self._begun(append, identities) for append in given.appends]
            await _settled([future for part in begun for future in _futures(part)])
        outcomes = AppendOutcomes([_outcome(part) for part in begun])
        return Response(_encoder.encode(outcomes), media_type=MESSAGE_PACK)

    async def _begun(self, append: Append, identities: Sequence[Identity | TocsinError]) -> Outcome:
        """On its way into the log; or what keeps it out."""
        try:
            return await self._checked(append, identities)
        except TocsinError as error:
            return AppendOutcome(error=error_info(error))

    async def _checked(
        self, append: Append, identities: Sequence[Identity | TocsinError]
    ) -> Outcome:
        if append.token >= len(identities):
            raise InvalidInput("there is no token in this place", field="token")
        identity, name = identities[append.token], append.dataset
        if isinstance(identity, TocsinError):
            raise identity
        identity.require("publish")
        self._permissions.require_publish(identity, name)
        if not self._catalog.knows_dataset(name):  # the event loop waits for no database
            await asyncio.to_thread(self._catalog.dataset, name)
        dataset = self._catalog.dataset(name)
        if dataset.created_at != append.created_at or attachments_of(dataset):
            return _STALE
        self._throttle.require(identity, append.size_bytes or 1)
        records = len(append.good) + append.refused
        if records:  # else somebody asks, whose body cannot be read
            self._throttle.take(identity, records, append.size_bytes)
        good = [(record.declared, record.extra) for record in append.good]
        letters: list[Encoded] = [(letter, None) for letter in append.letters]
        key = append.key or None
        return self._cluster.intake.begin(name, Sorted(good, append.refused, [], letters), key)


async def _identified(call: Call, token: str) -> Identity | TocsinError:
    try:
        return await call.verifier.identify(token)
    except TocsinError as error:
        return error


async def _decoded(body: bytes) -> Appends:
    try:
        if len(body) <= AT_ONCE_BYTES:
            return _decoder.decode(body)
        return await asyncio.to_thread(_decoder.decode, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body does not fit: {error}", field="body") from None


def _futures(part: Outcome) -> list[Future[Any]]:
    return list(part.futures) if isinstance(part, Appending) else []


def _outcome(part: Outcome) -> AppendOutcome:
    if isinstance(part, AppendOutcome):
        return part
    try:
        return AppendOutcome(end=part.end())
    except TocsinError as error:
        return AppendOutcome(error=error_info(error))
    except Exception as error:
        if is_bug(error):
            raise
        return AppendOutcome(error=error_info(TocsinError(f"it was not taken: {error}")))


async def _settled(futures: Sequence[Future[Any]]) -> None:
    """Returns when all are done. The loop is woken once, however many there are."""
    if not futures:
        return
    loop, lock, left = asyncio.get_running_loop(), Lock(), len(futures)
    settled = loop.create_future()

    def end() -> None:
        if not settled.done():
            settled.set_result(None)

    def count(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            loop.call_soon_threadsafe(end)

    for future in futures:
        future.add_done_callback(count)
    await settled


def append_routes(calls: AppendCalls) -> list[Route]:
    return [
        Route(
            "POST",
            "/v1/appends",
            calls.append,
            ("gateway",),
            "publications that a gateway has checked and encoded, each answered for itself",
            Media(MESSAGE_PACK, Appends),
            Media(MESSAGE_PACK, AppendOutcomes),
            limit_bytes=None,
        )
    ]
