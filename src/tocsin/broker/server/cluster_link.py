"""The broker's side of the conversation with the cluster. Decides nothing: the machine does.

Every question ends in its answer or in one TocsinError; what to do about a failure is the
caller's business. Ranges wanted in the same turn of the loop travel in one call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import structlog
from msgspec import Raw, Struct

from tocsin.broker.machine import events
from tocsin.broker.machine.effects import Fetch
from tocsin.broker.machine.events import LogPart, NewHead, RangeAnswer, StreamLine
from tocsin.broker.server.metrics import FETCH
from tocsin.broker.server.pages.page_bytes import Coming
from tocsin.broker.server.subscribing import Subscribing
from tocsin.client.addresses import leads_nowhere
from tocsin.client.cluster_http import ClusterHttp
from tocsin.client.http import NOT_SENT, error_of
from tocsin.errors import (
    InvalidInput,
    NotFound,
    TocsinError,
    Unauthenticated,
    Unavailable,
    Unconfirmed,
)
from tocsin.model import Result
from tocsin.overlay.filters import Filter
from tocsin.protocol import numbers
from tocsin.protocol.client import Interest, Marker, ResultInfo, SubscriptionInfo
from tocsin.protocol.cluster import (
    SUBSCRIBER_TOKEN,
    Arrived,
    AttachmentReading,
    AttachRequest,
    BoundFilter,
    BrokerSubscriptions,
    HeadNews,
    LogRange,
    Markers,
    News,
    RangeRequest,
    RangeRequests,
    Registered,
    Registration,
    ResultRange,
    ResultRanges,
    RoutedLine,
    SubscriptionRequest,
    UnknownMarkers,
    decode_line,
)
from tocsin.protocol.failure import read_error
from tocsin.protocol.health import Done
from tocsin.protocol.keys import Revoked
from tocsin.protocol.link import Publication
from tocsin.protocol.publishing import Published
from tocsin.protocol.queries import (
    FilterQuery,
    LedByQuery,
    LoadQuery,
    LogQuery,
    NewsQuery,
    SubscriberQuery,
    encode_query,
)
from tocsin.protocol.unreadable import readable
from tocsin.service.keys.credentials import Credential

log = structlog.get_logger()

PUBLISH_S = 60.0
CALLS_AT_ONCE = 4  # range calls under way; more ranges wait and travel together
MOST_PATH_CHARACTERS = 60_000  # longer addresses are refused on the way
RANGES_PER_CALL = 256
RECORDS_PER_CALL = 1000
SUBSCRIPTIONS_PER_CALL = 1000
SILENT_S = 5.0  # the stream of records says something every second; where another cluster …
TAKEN_OVER_S = 3.0  # … may take this one's place, it is missed sooner

T = TypeVar("T")


class Relayed(Struct, frozen=True):
    """An answer of the cluster, as it was given."""

    status: int
    body: bytes
    media_type: str
    retry_after: str | None

    def published(self) -> Published:
        """What became of a publication; raises the error that the answer is."""
        error = read_error(self.body)
        if error is not None:
            raise error
        try:
            return msgspec.json.decode(self.body, type=Published)
        except msgspec.DecodeError:
            raise Unavailable(f"the cluster answered with status {self.status}") from None


class _Page(BrokerSubscriptions, frozen=True, kw_only=True):
    """As it is read: each subscription by itself."""

    subscriptions: list[Raw]  # type: ignore[assignment]


_decode_info = readable(msgspec.json.Decoder(SubscriptionInfo).decode)


def _read_info(raw: Raw) -> SubscriptionInfo | None:
    try:
        return _decode_info(bytes(raw))
    except msgspec.DecodeError as error:
        log.error("a subscription cannot be read, and is not served here", reason=str(error))
        return None


FetchDone = Callable[[Fetch, RangeAnswer | TocsinError], None]
_Wanted = tuple[Fetch, FetchDone]


def new_heads(heads: Sequence[HeadNews]) -> list[NewHead]:
    return [
        NewHead(news.backend, news.epoch, news.head, results_of(news.backend, news.results))
        for news in heads
    ]


def results_of(backend: int, stored: Sequence[ResultInfo[Raw]]) -> list[Result]:
    return [Result(backend, info.position, info.at, bytes(info.value)) for info in stored]


def log_part(dataset: str, part: LogRange[dict[str, Any]]) -> LogPart:
    publications = [
        Publication(dataset, record.position, record.record, record.at) for record in part.records
    ]
    return LogPart(part.floor, part.upto, publications)


def stream_line(line: RoutedLine[dict[str, Any]]) -> StreamLine | None:
    """None: it says nothing that is known."""
    if line.position is not None:
        publication = Publication(line.dataset, line.position, line.record or {}, line.at)
        return events.Published(publication, line.after or 0)
    if line.entered is not None:
        return events.Entered(line.dataset, line.entered)
    if line.passed is not None:
        return events.Passed(line.dataset, line.passed)
    return events.Left(line.dataset) if line.left else None


class ClusterLink:
    """Calls to the cluster under this broker's name."""

    def __init__(
        self,
        url: str,
        credential: Credential,
        name: str,
        timeout_s: float = 10.0,
        authority: str = "",
        gateway_url: str = "",
    ) -> None:
        """`url`: of the cluster, or several, of which one leads. `gateway_url`: where publications
        are handed on instead, if there are gateways."""
        self.notice_secret: str | None = None  # signs notices for us alone; None: the shared one
        self.registered_at = 0.0
        self.refused: str | None = None  # why the cluster does not take our token
        self.fetched_bytes: int = 0
        self._credential = credential
        self._name = name
        self._timeout_s = timeout_s
        self._mine = f"/v1/brokers/{quote(name, safe='')}"
        self._http = ClusterHttp(url, f"broker {name}", authority, timeout_s)
        self._publishing = self._http
        if gateway_url:
            named = gateway_url, f"broker {name}", authority, timeout_s
            self._publishing = ClusterHttp(*named, field="gateway_url", spread=Random())
        self._wanted: list[_Wanted] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._flushing = False
        self._subscribing = Subscribing(self._subscribe, self._subscribe_all)

    @property
    def url(self) -> str:
        """Where the cluster is called now."""
        return self._http.addresses.current

    @property
    def distrusted(self) -> str | None:
        """Why the cluster is not trusted."""
        return self._http.distrusted

    async def close(self) -> None:
        await self._subscribing.close()
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._http.client.aclose()
        await self._publishing.client.aclose()

    async def register(self, broker_url: str) -> Registered:
        registered = await self._call("PUT", self._mine, Registered, Registration(broker_url))
        self.notice_secret, self.registered_at = registered.notice_secret, time.monotonic()
        return registered

    async def revoked(self) -> Revoked:
        """Whose tokens are no longer taken."""
        return await self._call("GET", "/v1/revocations", Revoked)

    async def load(self, after: int) -> BrokerSubscriptions:
        """A page of the frontend subscriptions that are now on this broker. One that cannot be read
        is left out: it must not keep this broker from serving the others."""
        query = encode_query(LoadQuery(after, SUBSCRIPTIONS_PER_CALL))
        page = await self._call("GET", f"{self._mine}/subscriptions{query}", _Page)
        subscriptions = [info for raw in page.subscriptions if (info := _read_info(raw))]
        return BrokerSubscriptions(
            subscriptions, sequence=page.sequence, store_id=page.store_id, upto=page.upto
        )

    async def attach(self, subscriber: str, token: str) -> Arrived:
        """Move all of a subscriber's subscriptions here. `token`: the one that they showed."""
        path, body = self._mine + "/attach", AttachRequest(subscriber)
        return await self._call("POST", path, Arrived, body, on_behalf=token)

    async def subscribe(self, subscriber: str, wanted: Interest, token: str) -> SubscriptionInfo:
        body = SubscriptionRequest(
            wanted.channel, wanted.arguments, wanted.beginning, subscriber, self._name
        )
        return await self._subscribing.subscribe(body, token)

    async def _subscribe(self, request: SubscriptionRequest, token: str) -> SubscriptionInfo:
        path = "/v1/subscriptions"
        return await self._call("POST", path, SubscriptionInfo, request, on_behalf=token)

    async def _subscribe_all(
        self, requests: list[SubscriptionRequest], token: str
    ) -> list[SubscriptionInfo]:
        path = "/v1/subscriptions"
        return await self._call("POST", path, list[SubscriptionInfo], requests, on_behalf=token)

    async def unsubscribe(self, subscription: int, subscriber: str) -> None:
        path = f"/v1/subscriptions/{subscription}"
        await self._call("DELETE", path + encode_query(SubscriberQuery(subscriber)), Done)

    async def publish(
        self, dataset: str, body: bytes | AsyncIterator[bytes], headers: dict[str, str]
    ) -> Relayed:
        """Pass a publication on, in the publisher's name."""
        path = f"/v1/datasets/{quote(dataset, safe='')}/records"
        try:
            return await self._relay(self._publishing, "POST", path, body, headers)
        except Unavailable as error:
            if isinstance(error.__cause__, NOT_SENT):
                raise
            raise Unconfirmed.after(error) from error

    async def upload(
        self, id: str | None, body: AsyncIterator[bytes], headers: dict[str, str]
    ) -> Relayed:
        """Pass an attachment on as it comes, in the publisher's name."""
        method, path = ("PUT", f"/{quote(id, safe='')}") if id else ("POST", "")
        return await self._relay(self._http, method, f"/v1/attachments{path}", body, headers)

    async def _relay(
        self,
        http: ClusterHttp,
        method: str,
        path: str,
        body: bytes | AsyncIterator[bytes],
        headers: dict[str, str],
    ) -> Relayed:
        """What the cluster says. While none leads, that is a standby's answer: nothing was done."""
        streamed = not isinstance(body, bytes)
        answer = await http.ask(
            lambda at: http.client.request(
                method, at + path, content=body, headers=headers, timeout=PUBLISH_S
            ),
            repeatable="idempotency-key" in headers,
            streamed=streamed,
        )
        kind, later = answer.headers.get("content-type", ""), answer.headers.get("retry-after")
        return Relayed(answer.status_code, answer.content, kind, later)

    async def news(self, since: int) -> News:
        return await self._call("GET", f"{self._mine}/news" + encode_query(NewsQuery(since)), News)

    async def store_markers(self, markers: Sequence[Marker]) -> list[int]:
        """Returns the subscriptions that the cluster does not know."""
        body = Markers(list(markers))
        return (await self._call("POST", "/v1/markers", UnknownMarkers, body)).unknown

    async def records(self, dataset: str, after: int, upto: int) -> LogRange[dict[str, Any]]:
        """What a dataset's log has in (after, upto], as far as one answer goes."""
        path = f"/v1/datasets/{quote(dataset, safe='')}/log"
        query = encode_query(LogQuery(after, upto, RECORDS_PER_CALL))
        return await self._call("GET", path + query, LogRange[dict[str, Any]])

    async def bind_filter(self, dataset: str, where: str, token: str) -> Filter:
        """The cluster knows the dataset's columns, and says what is wrong with a filter."""
        path = f"/v1/datasets/{quote(dataset, safe='')}/filter" + encode_query(FilterQuery(where))
        if len(path) > MOST_PATH_CHARACTERS:
            raise InvalidInput(
                "the filter is too long", field="where", hint="ask for less in one filter"
            )
        return (await self._call("GET", path, BoundFilter, on_behalf=token)).filter

    async def routed(self) -> AsyncIterator[RoutedLine[dict[str, Any]]]:
        """Records of routed datasets as they are published, for the broker where they enter."""
        headers = {"authorization": f"Bearer {self._bearer()}"}
        address = await self._http.addresses.serving(self._http.client)
        if address is None:
            raise Unavailable("no cluster leads now", hint="a standby takes its place in seconds")
        silent_s = TAKEN_OVER_S if self._http.addresses.several else SILENT_S
        timeout = httpx.Timeout(self._timeout_s, read=silent_s)
        try:
            async with self._http.client.stream(
                "GET", f"{address}/v1/routed", headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                    self._http.addresses.leave(address)
                    raise error_of(response)
                async for line in response.aiter_lines():
                    if line:  # an empty one says that the cluster is there
                        yield decode_line(line)
        except httpx.HTTPError as error:
            raise self._http.left(address, error) from error
        except msgspec.DecodeError as error:
            raise Unavailable(f"the stream of records was not understood: {error}") from None

    @asynccontextmanager
    async def attachment(self, id: str) -> AsyncIterator[Coming]:
        """An attachment's bytes as they come."""
        headers = {"authorization": f"Bearer {self._bearer()}", "accept-encoding": "identity"}
        address = self.url
        try:
            async with self._http.client.stream(
                "GET", f"{address}/v1/attachments/{id}", headers=headers
            ) as response:
                if not response.is_success:
                    await response.aread()
                    if leads_nowhere(response):
                        self._http.addresses.leave(address)
                    raise error_of(response)
                size_bytes = int(response.headers["content-length"])
                yield Coming(size_bytes, response.aiter_raw())
        except httpx.HTTPError as error:
            raise self._http.left(address, error) from error

    async def may_read(self, id: str, led_by: LedByQuery, token: str) -> bool:
        """Raises unless the subscriber may read an attachment; whether it is private."""
        path = f"/v1/attachments/{id}/access" + encode_query(led_by)
        return (await self._call("GET", path, AttachmentReading, on_behalf=token)).private

    async def attachment_size(self, id: str) -> int:
        headers = {"authorization": f"Bearer {self._bearer()}", "accept-encoding": "identity"}
        path = f"/v1/attachments/{id}"
        answer = await self._http.ask(lambda at: self._http.client.head(at + path, headers=headers))
        if answer.status_code == 404:  # the answer to a HEAD has no body to say so
            raise NotFound(f"there is no attachment {id}", field="id")
        if not answer.is_success:
            raise error_of(answer)
        return int(answer.headers["content-length"])

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
            # One range that is refused, or not understood, must not harm the others.
            answers = [error] if len(batch) == 1 else await self._fetch_singly(batch)
        for (fetch, done), answer in zip(wanted, answers, strict=True):
            try:
                done(fetch, answer)
            except Exception:  # a fault of ours: the others have their answers all the same
                log.exception("results could not be handled", backend=fetch.backend)

    async def _fetch_singly(self, batch: list[Fetch]) -> list[RangeAnswer | TocsinError]:
        answers: list[RangeAnswer | TocsinError] = []
        for wanted in batch:
            try:
                answers += await self._fetch_ranges([wanted])
            except TocsinError as error:
                answers.append(error)
        return answers

    async def _fetch_ranges(self, batch: list[Fetch]) -> list[RangeAnswer | TocsinError]:
        body = RangeRequests(
            [RangeRequest(fetch.backend, fetch.after, fetch.upto, fetch.limit) for fetch in batch]
        )
        with FETCH.time():
            answer = await self._call("POST", "/v1/results", ResultRanges, body)
        by_backend: dict[int, list[ResultRange]] = {}
        for part in answer.ranges:
            by_backend.setdefault(part.backend, []).append(part)
        answers: list[RangeAnswer | TocsinError] = []
        for fetch in batch:  # several ranges of one backend subscription come in the order asked
            parts = by_backend.get(fetch.backend)
            part = parts.pop(0) if parts else ResultRange(backend=fetch.backend, gone=True)
            if part.gone:
                answers.append(NotFound(f"no backend subscription {fetch.backend}"))
                continue
            results = results_of(part.backend, part.results or ())
            self.fetched_bytes += sum(result.size_bytes for result in results)
            floor, head = part.floor or 0, part.head or 0
            answers.append(RangeAnswer(part.epoch, floor, head, results, part.upto))
        return answers

    async def _call(
        self, method: str, path: str, kind: type[T], body: Any = None, *, on_behalf: str = ""
    ) -> T:
        """`on_behalf`: the token of the subscriber for whom it is asked."""
        headers = {"authorization": f"Bearer {self._bearer()}", "content-type": "application/json"}
        if on_behalf:
            headers[SUBSCRIBER_TOKEN] = on_behalf
        content = None if body is None else numbers.encode(body)
        response = await self._http.ask(
            lambda at: self._http.client.request(
                method, at + path, content=content, headers=headers
            )
        )
        self._http.distrusted = None
        if not response.is_success:
            failure = error_of(response)
            self.refused = failure.message if isinstance(failure, Unauthenticated) else None
            raise failure
        self.refused = None
        decode: Callable[[bytes | str], T] = readable(partial(msgspec.json.decode, type=kind))
        try:
            return decode(response.content)
        except msgspec.DecodeError as error:
            raise TocsinError(
                f"the cluster's answer to {path} was not understood: {error}"
            ) from None

    def _bearer(self) -> str:
        return self._credential.token()
