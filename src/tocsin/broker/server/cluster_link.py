"""The broker's side of the conversation with the cluster. Decides nothing: the core does.

Every question ends in its answer or in one TocsinError; what to do about a failure is the
caller's business. Ranges wanted in the same turn of the loop travel in one call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tocsin.broker.effects import Fetch, Marker
from tocsin.broker.events import NewHead, RangeAnswer
from tocsin.broker.server.metrics import FETCH
from tocsin.broker.server.pages.pages import Coming
from tocsin.client.frames import SubscriptionInfo
from tocsin.client.http import NOT_SENT, error_of, tls
from tocsin.errors import NotFound, TocsinError, Unavailable, Unconfirmed, error_from_dict
from tocsin.model import Beginning, Departure, Result
from tocsin.overlay.filters import Filter
from tocsin.service.backoff import NO_ANSWER, Backoff
from tocsin.service.tokens import mint

TOKEN_S = 3600.0
PUBLISH_S = 60.0
CALLS_AT_ONCE = 4  # range calls under way; more ranges wait and travel together
RANGES_PER_CALL = 256
RECORDS_PER_CALL = 1000
SILENT_S = 5.0  # the stream of records says something every second

T = TypeVar("T")


class StoredResult(Struct, frozen=True):
    position: int
    at: float
    value: Raw


class StoredHead(Struct, frozen=True):
    backend: int
    epoch: str
    head: int
    results: list[StoredResult] = []


class StoredRange(Struct, frozen=True):
    """A part of a backend subscription's results; `gone`: the cluster does not know it (now)."""

    backend: int
    epoch: str = ""
    floor: int = 0
    head: int = 0
    results: list[StoredResult] = []
    gone: bool = False
    upto: int | None = None  # of a filter: there is nothing else up to here


class Interest(Struct, frozen=True):
    """What somebody subscribes to, as the cluster takes it."""

    channel: str
    arguments: dict[str, Any] | list[Any]
    beginning: Beginning | UnsetType | None = msgspec.field(default=UNSET, name="from")


class Relayed(Struct, frozen=True):
    """An answer of the cluster, as it was given."""

    status: int
    body: bytes
    media_type: str

    def told(self) -> dict[str, Any]:
        """What it says; raises the error that it is."""
        try:
            told: dict[str, Any] = msgspec.json.decode(self.body, type=dict[str, Any])
        except msgspec.DecodeError:
            raise Unavailable(f"the cluster answered with status {self.status}") from None
        if "error" in told:
            raise error_from_dict(told["error"])
        return told


class Registered(Struct, frozen=True):
    name: str
    cluster: str  # the store's id


class Loaded(Struct, frozen=True):
    sequence: int
    subscriptions: list[SubscriptionInfo]
    cluster: str | None = None


class Attached(Struct, frozen=True):
    subscriptions: list[SubscriptionInfo]


class News(Struct, frozen=True):
    """What changed: the body of a notice, and the answer to "what is new since"."""

    sequence: int
    heads: list[StoredHead] = []
    detached: list[Departure] = []
    cluster: str | None = None

    def new_heads(self) -> list[NewHead]:
        return [
            NewHead(h.backend, h.epoch, h.head, results_of(h.backend, h.results))
            for h in self.heads
        ]


class LogRecord(Struct, frozen=True):
    position: int
    at: float
    record: dict[str, Any]


class LogRange(Struct, frozen=True):
    """All records in (after, upto]; those up to `floor` are no longer kept."""

    floor: int
    upto: int
    records: list[LogRecord]


class RoutedLine(Struct, frozen=True):
    """A record that was just published; or what is to be known of its dataset."""

    dataset: str
    position: int | None = None
    after: int = 0
    at: float = 0.0
    record: dict[str, Any] = {}
    entered: int | None = None
    passed: int | None = None
    left: bool = False


_decode_line = msgspec.json.Decoder(RoutedLine).decode


class _Bound(Struct, frozen=True):
    filter: Filter


class _Ranges(Struct, frozen=True):
    ranges: list[StoredRange]


class _Unknown(Struct, frozen=True):
    unknown: list[int] = []


FetchDone = Callable[[Fetch, RangeAnswer | TocsinError], None]
_Wanted = tuple[Fetch, FetchDone]


def results_of(backend: int, stored: Sequence[StoredResult]) -> list[Result]:
    return [Result(backend, each.position, each.at, bytes(each.value)) for each in stored]


class ClusterLink:
    """Calls to the cluster under this broker's name."""

    def __init__(self, url: str, secret: str, name: str, timeout_s: float = 10.0) -> None:
        self.url = url.rstrip("/")
        self.fetched_bytes: int = 0
        self._secret = secret
        self._name = name
        self._timeout_s = timeout_s
        self._mine = f"/v1/brokers/{quote(name, safe='')}"
        self._http = httpx.AsyncClient(timeout=timeout_s, verify=tls())
        self._token = ""
        self._token_until = 0.0
        self._wanted: list[_Wanted] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._flushing = False

    async def close(self) -> None:
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._http.aclose()

    async def register(self, broker_url: str) -> Registered:
        return await self._call("PUT", self._mine, Registered, {"url": broker_url})

    async def load(self) -> Loaded:
        """All frontend subscriptions that are now on this broker."""
        return await self._call("GET", self._mine + "/subscriptions", Loaded)

    async def attach(self, subscriber: str) -> list[SubscriptionInfo]:
        """Move all of a subscriber's subscriptions here."""
        body = {"subscriber": subscriber}
        return (await self._call("POST", self._mine + "/attach", Attached, body)).subscriptions

    async def subscribe(self, subscriber: str, wanted: Interest) -> SubscriptionInfo:
        told = msgspec.to_builtins(wanted)
        body = told | {"subscriber": subscriber, "broker": self._name}
        return await self._persist("POST", "/v1/subscriptions", SubscriptionInfo, body)

    async def unsubscribe(self, subscription: int, subscriber: str) -> None:
        path = f"/v1/subscriptions/{subscription}?subscriber={quote(subscriber, safe='')}"
        await self._persist("DELETE", path, dict[str, Any])

    async def publish(
        self, dataset: str, body: bytes | AsyncIterator[bytes], headers: dict[str, str]
    ) -> Relayed:
        """Pass a publication on, in the publisher's name."""
        path = f"/v1/datasets/{quote(dataset, safe='')}/records"
        try:
            return await self._relay("POST", path, body, headers)
        except Unavailable as error:
            if isinstance(error.__cause__, NOT_SENT):
                raise
            raise Unconfirmed.after(error) from error

    async def upload(
        self, id: str | None, body: AsyncIterator[bytes], headers: dict[str, str]
    ) -> Relayed:
        """Pass an attachment on as it comes, in the publisher's name."""
        method, path = ("PUT", f"/{quote(id, safe='')}") if id else ("POST", "")
        return await self._relay(method, f"/v1/attachments{path}", body, headers)

    async def _relay(
        self,
        method: str,
        path: str,
        body: bytes | AsyncIterator[bytes],
        headers: dict[str, str],
    ) -> Relayed:
        try:
            answer = await self._http.request(
                method, self.url + path, content=body, headers=headers, timeout=PUBLISH_S
            )
        except NO_ANSWER as error:
            raise self._silent(error, "send it again") from error
        return Relayed(answer.status_code, answer.content, answer.headers.get("content-type", ""))

    async def news(self, since: int) -> News:
        return await self._call("GET", f"{self._mine}/news?since={since}", News)

    async def store_markers(self, markers: Sequence[Marker]) -> list[int]:
        """Returns the subscriptions that the cluster does not know."""
        return (
            await self._call("POST", "/v1/markers", _Unknown, {"markers": list(markers)})
        ).unknown

    async def records(self, dataset: str, after: int, upto: int) -> LogRange:
        """What a dataset's log has in (after, upto], as far as one answer goes."""
        path = f"/v1/datasets/{quote(dataset, safe='')}/log"
        asked = f"?after={after}&upto={upto}&limit={RECORDS_PER_CALL}"
        return await self._call("GET", path + asked, LogRange)

    async def bind_filter(self, dataset: str, where: str) -> Filter:
        """The cluster knows the dataset's columns, and says what is wrong with a filter."""
        path = f"/v1/datasets/{quote(dataset, safe='')}/filter?where={quote(where, safe='')}"
        return (await self._call("GET", path, _Bound)).filter

    async def routed(self) -> AsyncIterator[RoutedLine]:
        """Records of routed datasets as they are published, for the broker where they enter."""
        headers = {"authorization": f"Bearer {self._bearer()}"}
        timeout = httpx.Timeout(self._timeout_s, read=SILENT_S)
        try:
            async with self._http.stream(
                "GET", f"{self.url}/v1/routed", headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                async for line in response.aiter_lines():
                    if line:  # an empty one says that the cluster is there
                        yield _decode_line(line)
        except NO_ANSWER as error:
            raise Unavailable(f"the stream of records broke: {error!r}") from error
        except msgspec.DecodeError as error:
            raise Unavailable(f"the stream of records was not understood: {error}") from None

    def _silent(self, error: Exception, hint: str | None = None) -> Unavailable:
        reason = str(error) or type(error).__name__
        return Unavailable(f"no answer from the cluster at {self.url}: {reason}", hint=hint)

    @asynccontextmanager
    async def attachment(self, id: str) -> AsyncIterator[Coming]:
        """An attachment's bytes as they come."""
        headers = {"authorization": f"Bearer {self._bearer()}", "accept-encoding": "identity"}
        try:
            async with self._http.stream(
                "GET", f"{self.url}/v1/attachments/{id}", headers=headers
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                size_bytes = int(response.headers["content-length"])
                yield Coming(size_bytes, response.aiter_raw())
        except NO_ANSWER as error:
            raise self._silent(error) from error

    async def attachment_size(self, id: str) -> int:
        headers = {"authorization": f"Bearer {self._bearer()}", "accept-encoding": "identity"}
        try:
            told = await self._http.head(f"{self.url}/v1/attachments/{id}", headers=headers)
        except NO_ANSWER as error:
            raise self._silent(error) from error
        if told.status_code == 404:  # the answer to a HEAD has no body to say so
            raise NotFound(f"there is no attachment {id}", field="id")
        if not told.is_success:
            raise error_of(told)
        return int(told.headers["content-length"])

    def fetch(self, wanted: Fetch, done: FetchDone) -> None:
        """Ask for a range; `done` is called with the answer or the error, exactly once."""
        self._wanted.append((wanted, done))
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._wanted and len(self._calls) < CALLS_AT_ONCE:
            batch = self._wanted[:RANGES_PER_CALL]
            del self._wanted[:RANGES_PER_CALL]
            call = asyncio.create_task(self._fetch_all(batch))
            self._calls.add(call)
            call.add_done_callback(self._call_ended)

    def _call_ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.result()
            self._flush()

    async def _fetch_all(self, wanted: list[_Wanted]) -> None:
        batch = [fetch for fetch, _ in wanted]
        answers: list[RangeAnswer | TocsinError]
        try:
            answers = await self._fetch_ranges(batch)
        except Unavailable as error:
            answers = [error] * len(batch)
        except TocsinError as error:
            # One range that the cluster refuses must not harm the others.
            answers = [error] if len(batch) == 1 else await self._fetch_singly(batch)
        for (fetch, done), answer in zip(wanted, answers, strict=True):
            done(fetch, answer)

    async def _fetch_singly(self, batch: list[Fetch]) -> list[RangeAnswer | TocsinError]:
        answers: list[RangeAnswer | TocsinError] = []
        for wanted in batch:
            try:
                answers += await self._fetch_ranges([wanted])
            except TocsinError as error:
                answers.append(error)
        return answers

    async def _fetch_ranges(self, batch: list[Fetch]) -> list[RangeAnswer | TocsinError]:
        ranges = [
            {"backend": f.backend, "after": f.after, "upto": f.upto, "limit": f.limit}
            for f in batch
        ]
        with FETCH.time():
            told = (await self._call("POST", "/v1/results", _Ranges, {"ranges": ranges})).ranges
        by_backend: dict[int, list[StoredRange]] = {}
        for each in told:
            by_backend.setdefault(each.backend, []).append(each)
        answers: list[RangeAnswer | TocsinError] = []
        for wanted in batch:  # several ranges of one backend subscription come in the order asked
            found = by_backend.get(wanted.backend)
            each = found.pop(0) if found else StoredRange(wanted.backend, gone=True)
            if each.gone:
                answers.append(NotFound(f"no backend subscription {wanted.backend}"))
                continue
            results = results_of(each.backend, each.results)
            self.fetched_bytes += sum(result.size_bytes for result in results)
            answers.append(RangeAnswer(each.epoch, each.floor, each.head, results, each.upto))
        return answers

    async def _persist(self, method: str, path: str, kind: type[T], body: Any = None) -> T:
        """For idempotent calls a client waits for: try again for a few seconds."""
        backoff = Backoff(0.1, 1.0)
        for _ in range(4):
            try:
                return await self._call(method, path, kind, body)
            except Unavailable:
                await asyncio.sleep(backoff.next_s())
        return await self._call(method, path, kind, body)

    async def _call(self, method: str, path: str, kind: type[T], body: Any = None) -> T:
        headers = {"authorization": f"Bearer {self._bearer()}", "content-type": "application/json"}
        content = None if body is None else msgspec.json.encode(body)
        try:
            response = await self._http.request(
                method, self.url + path, content=content, headers=headers
            )
        except NO_ANSWER as error:
            raise self._silent(error) from error
        if not response.is_success:
            raise error_of(response)
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"the cluster's answer to {path} was not understood: {error}"
            ) from None

    def _bearer(self) -> str:
        now = time.time()
        if now > self._token_until - TOKEN_S / 2:
            self._token = mint(self._secret, self._name, ["broker"], expires_s=TOKEN_S, now=now)
            self._token_until = now + TOKEN_S
        return self._token
