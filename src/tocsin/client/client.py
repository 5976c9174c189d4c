"""`Client`: what an asynchronous application imports."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from tocsin.client.attachments import AttachedFile, attached
from tocsin.client.beginning import From, beginning_of
from tocsin.client.cluster import Cluster
from tocsin.client.connection import Address, Connection, Listener
from tocsin.client.feed import Gap, Result
from tocsin.client.group import GroupListener, Ready, SubscriptionGroup
from tocsin.client.http import Http, Token
from tocsin.client.transport import tls
from tocsin.errors import Conflict, InvalidInput, TocsinError, Unavailable
from tocsin.model import FILTERED
from tocsin.protocol.broker import BrokerInfo
from tocsin.protocol.coordinator import LiveBrokers
from tocsin.protocol.publishing import Published, StatementResult
from tocsin.protocol.queries import BrokerQuery, encode_query

T = TypeVar("T")

Acknowledge = Literal["auto", "manual"]
TOGETHER = 1000  # subscriptions that are asked for before an answer is waited for
SETTLE_S = 5.0  # how long leaving a subscription waits for its last acknowledgement


class Subscription:
    """The results of one subscription, in order, each once: `async for result in subscription`.

    Asking for the next result acknowledges the one before (with `ack="auto"`), and so does
    leaving the `async with` block without an exception. The subscription itself lives on, and
    the next session resumes behind the last acknowledged result, until `unsubscribe`. If somebody
    else ends it, by a statement for example, iterating ends behind what was received, and `ended`
    is true.
    """

    __slots__ = ("_auto", "_closed", "_connection", "_last", "_listener")

    def __init__(self, connection: Connection, listener: Listener, ack: Acknowledge) -> None:
        self._connection = connection
        self._listener = listener
        self._auto = ack == "auto"
        self._last: Result | None = None
        self._closed = False

    @property
    def id(self) -> int:
        return self._listener.feed.subscription

    @property
    def channel(self) -> str:
        return self._listener.channel

    @property
    def arguments(self) -> dict[str, Any] | list[Any]:
        """As they were given."""
        return self._listener.arguments

    @property
    def gaps(self) -> list[Gap]:
        """Every loss so far; each is also told by the `gap` of the result that follows it."""
        return list(self._listener.feed.gaps)

    def on_gap(self, callback: Callable[[Gap], None]) -> None:
        """Have `told` called with each loss as soon as it is known, those so far included."""
        for gap in self.gaps:
            callback(gap)
        self._listener.feed.on_gap = callback

    @property
    def ended(self) -> bool:
        """Whether the subscription is over for good, by whomever."""
        return self._listener.ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Result:
        self._acknowledge_last()
        while not self._closed:
            result = self.take()
            if result is not None:
                self._last = result
                return result
            if self._listener.ended:
                break
            if self._listener.error is not None:
                raise self._listener.error
            await self._listener.changed()
        raise StopAsyncIteration

    def take(self) -> Result | None:
        """The next result if there is one now, as a `SubscriptionGroup` takes it: nothing is
        acknowledged."""
        return self._connection.take(self._listener)

    def ack(self, result: Result) -> None:
        """Acknowledge this result and all before it (for `ack="manual"`)."""
        self._connection.acknowledge(self._listener, result)

    async def settle(self) -> None:
        """Wait until every acknowledgement so far is durable, or nobody wants it any more."""
        self._connection.hasten()
        self._listener.settling = True
        while not self._listener.feed.settled and not self._listener.ended:
            if self._listener.error is not None:
                raise self._listener.error
            await self._listener.changed()

    async def unsubscribe(self) -> None:
        """End the subscription for good."""
        self._end()
        await self._connection.unsubscribe(self._listener)
        self._listener.ended = True

    async def close(self) -> None:
        """Stop receiving; the subscription lives on."""
        with contextlib.suppress(TimeoutError, TocsinError):
            await asyncio.wait_for(self.settle(), SETTLE_S)
        self.forget()

    def forget(self) -> None:
        """Stop receiving, whatever is acknowledged."""
        self._connection.forget(self._listener)
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._closed:
            return
        if kind is None:
            self._acknowledge_last()
        await self.close()

    def _acknowledge_last(self) -> None:
        if self._auto and self._last is not None:
            self.ack(self._last)
        self._last = None

    def _end(self) -> None:
        self._closed = True
        self._listener.wake()


class Client:
    """Subscribes through a coordinator (or one broker), publishes to a cluster, or through a broker
    if it knows no cluster.

    Reconnects by itself, to another broker if need be; with a coordinator it follows when the
    subscriber is moved to another broker, by a statement or by connecting there. `token` may be a
    function that gives a fresh token. `prefetch` bounds how many results of a subscription wait
    for the application. The broker sends results as they come to an application that keeps up;
    with `inline=False` it only signals them, and each is asked for. `authority` is a PEM file with
    the authorities whose certificates are trusted; without it TOCSIN_AUTHORITY names one, or those
    of the machine are.
    """

    def __init__(
        self,
        coordinator: str | None = None,
        *,
        broker: str | None = None,
        cluster: str | None = None,
        token: Token | None = None,
        ack: Acknowledge = "auto",
        prefetch: int = 256,
        inline: bool = True,
        open_timeout_s: float = 30.0,
        reconnect_most_s: float = 5.0,
        authority: str | Path = "",
    ) -> None:
        if ack not in ("auto", "manual"):
            raise InvalidInput('ack is "auto" or "manual"', field="ack")
        if not 1 <= prefetch <= 10_000:
            raise InvalidInput("prefetch is between 1 and 10000", field="prefetch")
        self._broker = broker
        self._token = token
        self._authority = str(authority)
        tls(self._authority)  # a file that cannot be trusted is told now
        # A broker answers "which broker?" with itself, so that its REST address serves as well.
        finder = broker if broker and broker.startswith("http") else coordinator
        self._finder = self._http(finder, timeout_s=10.0) if finder else None
        self._cluster = self._cluster_at(cluster) if cluster else None
        self._relay: tuple[str, Cluster] | None = None  # the broker that we publish through
        self._pages: tuple[str | None, Http] | None = None  # the broker whose pages we read
        self._ack: Acknowledge = ack
        self._prefetch = prefetch
        self._open_timeout_s = open_timeout_s
        self._connection = Connection(
            self._locate,
            token,
            inline=inline,
            most_s=reconnect_most_s,
            find=self._find,
            authority=self._authority,
        )

    @property
    def broker(self) -> str | None:
        """The name of the broker that serves us now."""
        return self._connection.broker

    async def subscribe(
        self, channel: str, /, *arguments: Any, from_: From | Any = None, **named: Any
    ) -> Subscription:
        """Subscribe, or resume: the same channel and arguments are the same subscription. `ANY`
        (`tocsin.client.ANY`) in the place of a value leaves that parameter open.

        A new subscription begins with what comes next; `from_=600` with the results of the last 600
        seconds (or a `timedelta`), `from_=Last(100)` with the last 100. One that is there already
        goes on where it was.
        """
        if arguments and named:
            raise InvalidInput("give arguments by place or by name, not both", field="arguments")
        beginning = beginning_of(from_)
        await self._connection.open(self._open_timeout_s)
        given = list(arguments) if arguments else named
        listener = Listener(channel, given, self._prefetch, beginning)
        await self._connection.subscribe(listener)
        return Subscription(self._connection, listener, self._ack)

    async def subscribe_many(
        self,
        channel: str,
        arguments: Iterable[Mapping[str, Any] | Sequence[Any]],
        *,
        from_: From | Any = None,
    ) -> SubscriptionGroup:
        """Subscribe to a channel with each of many arguments, and iterate all of them as one:
        `result.subscription` says which a result is of.

        If one is refused, the error's `index` says which, and nothing is received. Those that were
        made meanwhile are there, as after any `subscribe`: asked for again, they are the same.
        """
        beginning, ready, listeners = beginning_of(from_), Ready(), []
        given = [dict(them) if isinstance(them, Mapping) else list(them) for them in arguments]
        await self._connection.open(self._open_timeout_s)
        try:
            for start in range(0, len(given), TOGETHER):
                together = [
                    GroupListener(channel, them, self._prefetch, beginning, ready.put)
                    for them in given[start : start + TOGETHER]
                ]
                listeners += together
                asked = [self._connection.subscribe(listener) for listener in together]
                answers = await asyncio.gather(*asked, return_exceptions=True)
                for place, answer in enumerate(answers, start=start):
                    if isinstance(answer, TocsinError):
                        answer.index = place
                    if isinstance(answer, BaseException):
                        raise answer
        except BaseException:
            for listener in listeners:
                self._connection.forget(listener)
            raise
        for listener in listeners:  # something may be there already
            ready.put(listener)
        made = [Subscription(self._connection, listener, self._ack) for listener in listeners]
        return SubscriptionGroup(ready, made, self._ack == "auto")

    async def subscribe_to_dataset(
        self, dataset: str, where: str = "", *, from_: From | None = None
    ) -> Subscription:
        """The records of a routed dataset that meet the conditions of `where` (all of them if it is
        empty), as they are published. `from_` is that of `subscribe`."""
        return await self.subscribe(FILTERED + dataset, where=where, from_=from_)

    async def listen(
        self, channel: str, /, *arguments: Any, from_: From | Any = None, **named: Any
    ) -> AsyncIterator[Result]:
        """Subscribe and iterate in one step."""
        async with await self.subscribe(channel, *arguments, from_=from_, **named) as subscription:
            async for result in subscription:
                yield result

    async def sql(self, text: str, key: str | None = None) -> list[StatementResult]:
        """Run statements at the cluster; INSERTs once under the same `key`."""
        return await self._require_cluster().sql(text, key)

    async def publish(
        self, dataset: str, records: Mapping[str, Any] | Iterable[Mapping[str, Any]]
    ) -> Published:
        """Publish records, once though an answer be lost (see `Cluster.publish`). A `Path` as a
        value is a file: it is uploaded, and becomes the value of a column of type ATTACHMENT."""
        many = [records] if isinstance(records, Mapping) else list(records)
        many = [await self._with_uploads(record) for record in many]
        return await self._publishing(lambda at, key: at.publish(dataset, many, key))

    async def publish_file(self, dataset: str, path: str | Path) -> Published:
        """Publish a file, once though an answer be lost (see `Cluster.publish`)."""
        return await self._publishing(lambda at, key: at.publish_file(dataset, path, key))

    async def _with_uploads(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        files = {name: value for name, value in record.items() if isinstance(value, Path)}
        if not files:
            return record
        return {**record, **{name: await self.upload(path) for name, path in files.items()}}

    async def upload(
        self, source: str | Path | bytes, type: str | None = None, name: str | None = None
    ) -> dict[str, Any]:
        """Upload a file, or bytes: the value that a column of type ATTACHMENT takes."""
        return await self._publishing(lambda at, _: at.upload(source, type, name))

    def attachment(self, result: Result, field: str) -> AttachedFile:
        """The attachment that a field of a result holds: `await ….read()`, or
        `async for piece in …`. Our broker has it, or gets it."""
        return AttachedFile(attached(result, field), result, self._nearest)

    async def _nearest(self) -> Http:
        """The broker that serves us now, by HTTP."""
        name = self._connection.broker
        if self._pages is None or self._pages[0] != name:
            if self._finder is None:
                raise InvalidInput(
                    "this client knows no broker by its HTTP address",
                    field="broker",
                    hint='Client("http://coordinator:7410"), or Client(broker="http://…")',
                )
            broker = await self._ask_for_broker(None)
            if name not in (None, broker.name):
                known = await self._finder.call("GET", "/v1/brokers", LiveBrokers, repeatable=True)
                broker = next((live for live in known.brokers if live.name == name), broker)
            if self._pages is not None:
                await self._pages[1].close()
            self._pages = name, self._http(broker.url)
        return self._pages[1]

    async def _publishing(self, publish: Callable[[Cluster, str], Awaitable[T]]) -> T:
        """At the cluster; else through a broker, and through another one if that fails us."""
        key = uuid.uuid4().hex
        if self._cluster is not None or self._finder is None:
            return await publish(self._require_cluster(), key)
        avoid: str | None = None
        for again in (True, False):
            if self._relay is None:
                broker = await self._ask_for_broker(avoid)
                self._relay = broker.name, self._cluster_at(broker.url)
            avoid, relay = self._relay
            try:
                return await publish(relay, key)
            except Unavailable:
                self._relay = None
                await relay.close()
                if not again:
                    raise
        raise AssertionError("unreachable")

    async def close(self) -> None:
        await self._connection.close()
        if self._finder is not None:
            await self._finder.close()
        if self._cluster is not None:
            await self._cluster.close()
        if self._relay is not None:
            await self._relay[1].close()
        if self._pages is not None:
            await self._pages[1].close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _http(self, url: str, timeout_s: float = 30.0) -> Http:
        return Http(url, self._token, timeout_s, self._authority)

    def _cluster_at(self, url: str) -> Cluster:
        return Cluster(url, self._token, authority=self._authority)

    def _require_cluster(self) -> Cluster:
        if self._cluster is None:
            raise InvalidInput(
                "this client knows no cluster, nor a broker by its HTTP address",
                field="cluster",
                hint='Client(cluster="http://…"), or Client("http://coordinator:7410")',
            )
        return self._cluster

    async def _locate(self, avoid: str | None) -> Address:
        if self._finder is None:
            if self._broker is None:
                raise InvalidInput(
                    "this client knows no broker",
                    field="coordinator",
                    hint='Client("http://coordinator:7410", token=…)',
                )
            return Address(self._broker, self._broker)
        broker = await self._ask_for_broker(avoid, attempts=1)
        return Address(broker.name, broker.ws_url)

    async def _ask_for_broker(self, avoid: str | None, attempts: int = 6) -> BrokerInfo:
        assert self._finder is not None
        path = "/v1/broker" + (encode_query(BrokerQuery((avoid,))) if avoid else "")
        return await self._finder.call("GET", path, BrokerInfo, repeatable=True, attempts=attempts)

    async def _find(self, name: str) -> Address | None:
        if self._finder is None or self._broker is not None:
            raise Conflict(
                f"this subscriber was moved to the broker {name}, and this client is bound to "
                f"{self._broker}",
                hint="a client with a coordinator follows",
            )
        known = await self._finder.call(
            "GET", "/v1/brokers", LiveBrokers, repeatable=True, attempts=1
        )
        for broker in known.brokers:
            if broker.name == name and broker.alive:
                return Address(name, broker.ws_url)
        return None
