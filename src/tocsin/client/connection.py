"""One WebSocket connection to whichever broker serves us, kept up for as long as it is wanted.

Finds a broker, connects, opens every feed again, sends what feeds want, and starts over when
the connection breaks or the subscriber is moved to another broker. What a feed has received and
acknowledged is the feed's own affair.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
from msgspec import UNSET
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from tocsin.backoff import Backoff
from tocsin.client.feed import Feed
from tocsin.client.http import Token, current
from tocsin.client.transport import distrust, tls
from tocsin.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    QuotaExceeded,
    TocsinError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Untrusted,
    UpgradeRequired,
)
from tocsin.model import Beginning
from tocsin.protocol import client as frames
from tocsin.protocol.failure import error_of, read_error
from tocsin.protocol.version import check_peer, version_header

log = logging.getLogger("tocsin.client")

SETTLE_S = 2.0  # how long closing waits for the last acknowledgements
STEADY_S = 5.0  # a connection that held so long was a good one: the next failure starts small

FATAL = {
    frames.MALFORMED: (InvalidInput, "the broker could not read what this client sent"),
    frames.TOO_LARGE: (TooLarge, "a frame was larger than the broker takes"),
    frames.UPGRADE_REQUIRED: (UpgradeRequired, "the broker refused this client's protocol"),
    frames.UNAUTHENTICATED: (Unauthenticated, "the token is missing, wrong or has expired"),
}


class Address(msgspec.Struct, frozen=True):
    """Where a broker is."""

    name: str
    ws_url: str


Locate = Callable[[str | None], Awaitable[Address]]
"""A broker to connect to, if possible not the one named."""
Find = Callable[[str], Awaitable[Address | None]]
"""The broker of that name, if it lives."""


class Listener:
    """What the application waits on for one subscription: a feed and a wake-up call."""

    def __init__(
        self,
        channel: str,
        arguments: dict[str, Any] | list[Any],
        prefetch: int,
        beginning: Beginning | None = None,
    ) -> None:
        self.channel = channel
        self.arguments = arguments
        self.beginning = beginning  # if the subscription is a new one
        self.feed = Feed(prefetch)
        self.changed = asyncio.Event()
        self.ended = False  # for good, by whomever
        self.error: TocsinError | None = None


class Connection:
    """Keeps one socket up and moves frames between it and the feeds."""

    def __init__(
        self,
        locate: Locate,
        token: Token | None,
        *,
        inline: bool,
        most_s: float,
        find: Find | None = None,
        authority: str = "",
    ) -> None:
        self._locate = locate
        self._find = find
        self._authority = authority
        self._token = token
        self._inline = inline
        self._backoff = Backoff(Random(), most_s=most_s)
        self._refs = itertools.count(1)
        self._listeners: dict[int, Listener] = {}  # by subscription id
        self._requests: dict[int, tuple[frames.Request, asyncio.Future[Any]]] = {}
        self._unsent: list[frames.Request] = []
        self._subscribing: dict[int, Listener] = {}
        self._gets: dict[int, Listener] = {}
        self._wake = asyncio.Event()
        self._opened = asyncio.Event()
        self._error: TocsinError | None = None
        self._last_failure: Exception | None = None
        self._avoid: str | None = None
        self._follow: str | None = None  # the broker that we were moved to
        self._store_id: str | None = None  # of the store in which our subscriptions have their ids
        self._task: asyncio.Task[None] | None = None
        self.broker: str | None = None

    async def open(self, timeout_s: float) -> None:
        """Connect if not connected; raises what makes connecting impossible."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._opened.wait(), timeout_s)
        self._check()
        if not self._opened.is_set():
            reason = f": {self._last_failure}" if self._last_failure else ""
            raise Unavailable(f"no broker could be reached in {timeout_s} s{reason}")

    async def close(self) -> None:
        """Stop, after a moment for acknowledgements on their way. What the broker has not
        confirmed by then stays unacknowledged, and is delivered again."""
        deadline = time.monotonic() + SETTLE_S
        while self.broker and not self._settled and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(Unavailable("this client is closed"))

    async def subscribe(self, listener: Listener) -> None:
        ref = next(self._refs)
        beginning = listener.beginning or UNSET
        request = frames.Subscribe(listener.channel, listener.arguments, beginning, ref=ref)
        self._subscribing[ref] = listener
        try:
            await self._request(ref, request)
        finally:
            del self._subscribing[ref]

    async def unsubscribe(self, listener: Listener) -> None:
        assert listener.feed.info is not None
        self.forget(listener)
        ref = next(self._refs)
        # Sent again after a lost answer it is unknown: that is what was wanted.
        with contextlib.suppress(NotFound):
            number = listener.feed.info.subscription
            await self._request(ref, frames.Unsubscribe(ref, number))

    def forget(self, listener: Listener) -> None:
        if listener.feed.info is not None:
            self._listeners.pop(listener.feed.info.subscription, None)

    def wake(self) -> None:
        """A feed may want something sent."""
        self._wake.set()

    @property
    def _settled(self) -> bool:
        return all(listener.feed.settled for listener in self._listeners.values())

    async def _request(self, ref: int, request: frames.Request) -> Any:
        self._check()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._requests[ref] = (request, future)
        self._unsent.append(request)
        self._wake.set()
        try:
            return await future
        finally:
            del self._requests[ref]

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _fail(self, error: TocsinError) -> None:
        self._error = error
        self._opened.set()
        for _, future in self._requests.values():
            if not future.done():
                future.set_exception(error)
        for listener in self._listeners.values():
            listener.error = listener.error or error
            listener.changed.set()

    async def _run(self) -> None:
        renewed = False  # one try with a fresh token before giving up
        while self._error is None:
            try:
                await self._connect_once()
                renewed = False
            except Unauthenticated as error:
                if renewed or not callable(self._token):
                    self._fail(error)
                renewed = True
            except Unavailable as error:
                again = isinstance(self._last_failure, Untrusted)
                self._last_failure = error
                if again and isinstance(error, Untrusted) and not self._opened.is_set():
                    self._fail(error)  # once we were connected, it is a fault that passes
                log.info("no broker: %s", error)
            except TocsinError as error:
                self._fail(error)
            except Exception:
                log.exception("the connection failed in an unforeseen way; trying again")
            self.broker = None
            if self._error is None:
                await asyncio.sleep(self._backoff.next_s())

    async def _connect_once(self) -> None:
        address = await self._next_address()
        url = f"{address.ws_url}{'&' if '?' in address.ws_url else '?'}inline={int(self._inline)}"
        headers = {"Authorization": f"Bearer {current(self._token)}", **version_header()}
        try:
            async with connect(
                url,
                additional_headers=headers,
                compression=None,
                ssl=tls(self._authority) if url.startswith("wss:") else None,
                max_size=None,
                ping_interval=10,
                ping_timeout=10,
                close_timeout=1,
            ) as socket:
                await self._session(socket, address)
        except InvalidStatus as error:
            raise _refused(error) from None
        except ConnectionClosed as error:
            self._closed(error, address)
        except (OSError, TimeoutError, WebSocketException) as error:
            self._avoid = address.name
            if reason := distrust(error):
                message = f"broker {address.name} at {address.ws_url}: {reason}"
                raise Untrusted(message, field="authority") from error
            raise Unavailable(f"broker {address.name}: {error!r}") from error

    async def _next_address(self) -> Address:
        address = await self._find(self._follow) if self._find and self._follow else None
        self._follow = None  # one try: whoever else is found brings everything along
        return address or await self._locate(self._avoid)

    def _closed(self, error: ConnectionClosed, address: Address) -> None:
        code = error.rcvd.code if error.rcvd is not None else 1006
        # To be sent away or to have stalled is no fault of the broker; anything else may be.
        self._avoid = None if code in (frames.COME_AGAIN, frames.MOVED) else address.name
        if code in FATAL:
            kind, message = FATAL[code]
            reason = error.rcvd.reason if error.rcvd is not None else ""
            raise kind(f"{message}: {reason}" if reason else message)
        log.info("broker %s closed the connection (%s); reconnecting", address.name, code)

    async def _session(self, socket: ClientConnection, address: Address) -> None:
        welcome = frames.decode_answer(await socket.recv())
        if isinstance(welcome, frames.Failure):
            raise self._not_welcome(address, error_of(welcome.error))
        if not isinstance(welcome, frames.Welcome):
            raise Unavailable(f"broker {address.name} did not say welcome")
        check_peer(welcome.protocol, f"broker {welcome.broker}", "this client")
        self._open_again(welcome)
        self.broker = welcome.broker
        started_at = time.monotonic()
        self._avoid = None
        self._opened.set()
        sender = asyncio.create_task(self._send(socket))
        try:
            async for message in socket:
                self._receive(message)
            # The iterator ends silently on codes 1000 and 1001; the caller wants to know which.
            await socket.recv()
        finally:
            if time.monotonic() - started_at >= STEADY_S:
                self._backoff.reset()
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    def _not_welcome(self, address: Address, error: TocsinError) -> TocsinError:
        """Once we were connected it may be our own connection, lost and not given up yet, that has
        the last place: it is tried again."""
        if isinstance(error, QuotaExceeded) and not self._opened.is_set():
            return error
        return Unavailable(f"broker {address.name} refused the connection: {error}")

    def _open_again(self, welcome: frames.Welcome) -> None:
        """After a (re)connection: all feeds resume, all unanswered requests are sent again."""
        served = {info.subscription: info for info in welcome.subscriptions}
        self._gets.clear()
        self._unsent = [request for request, _ in self._requests.values()]
        anew = self._store_id not in (None, welcome.store_id)
        self._store_id = welcome.store_id
        for number in list(self._listeners):
            if anew:  # this cluster has never heard of us
                self._subscribe_again(self._listeners.pop(number))
            elif number in served:
                self._listeners[number].feed.opened(served[number])
            else:
                self._ended(number)
        self._wake.set()

    def _ended(self, number: int) -> None:
        listener = self._listeners.pop(number, None)
        if listener is not None:
            listener.ended = True
            listener.changed.set()

    def _subscribe_again(self, listener: Listener) -> None:
        async def again() -> None:
            try:
                await self.subscribe(listener)
            except TocsinError as error:
                listener.error = error
                listener.changed.set()

        task = asyncio.create_task(again())
        _BACKGROUND.add(task)
        task.add_done_callback(_BACKGROUND.discard)

    async def _send(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._wake.wait()
                self._wake.clear()
                for request in self._due():
                    await socket.send(frames.encode(request), text=True)

    def _due(self) -> list[frames.Request]:
        due, self._unsent = self._unsent, []
        for number, listener in self._listeners.items():
            acknowledgement = listener.feed.acknowledgement()
            if acknowledgement is not None:
                due.append(frames.Ack(*acknowledgement, subscription=number))
            wanted = listener.feed.wanted()
            if wanted is not None:
                ref = next(self._refs)
                self._gets[ref] = listener
                due.append(frames.Get(ref, number, wanted.after, wanted.epoch, wanted.limit))
        return due

    def _receive(self, message: str | bytes) -> None:
        try:
            frame = frames.decode_answer(message)
        except msgspec.DecodeError as error:
            log.warning("a frame of the broker was not understood and is left out: %s", error)
            return
        match frame:
            case frames.Signal():
                for listener in self._of(frame.backend):
                    listener.feed.signalled(frame.epoch, frame.head)
                self._wake.set()
            case frames.ResultsFrame(ref=ref) if ref is not UNSET:
                asker = self._gets.pop(_number(ref), None)
                if asker is not None:
                    asker.feed.arrived(frame)
                    asker.changed.set()
                self._wake.set()
            case frames.ResultsFrame():
                for listener in self._of(frame.backend):
                    listener.feed.arrived(frame)
                    listener.changed.set()
                self._wake.set()
            case frames.Acked():
                if frame.subscription in self._listeners:
                    self._listeners[frame.subscription].feed.confirmed(frame.epoch, frame.position)
                    self._listeners[frame.subscription].changed.set()
            case frames.Ended():
                self._ended(frame.subscription)
            case frames.Moved():
                self._follow = frame.broker
            case frames.Subscribed():
                self._subscribed(frame)
            case frames.Unsubscribed() | frames.Pong():
                self._answer(frame.ref, frame)
            case frames.Failure(subscription=subscription) if subscription is not UNSET:
                log.debug("not acknowledged: %s", frame.error)  # how it left comes in other words
            case frames.Failure():
                self._failed(frame)

    def _of(self, backend: int) -> list[Listener]:
        every = self._listeners.values()
        return [
            listener
            for listener in every
            if listener.feed.info and listener.feed.info.backend == backend
        ]

    def _subscribed(self, frame: frames.Subscribed) -> None:
        # At once, not when the waiting task runs again: the next frame may already be a signal.
        listener = self._subscribing.get(_number(frame.ref))
        if listener is None:
            return
        info = frame.subscription
        if self._listeners.setdefault(info.subscription, listener) is not listener:
            _, future = self._requests[_number(frame.ref)]
            message = f"this client already listens to {info.channel} with these arguments"
            future.set_exception(Conflict(message, hint="iterate the first subscription"))
            return
        listener.feed.opened(info)
        self._wake.set()
        self._answer(frame.ref, frame)

    def _answer(self, ref: frames.Ref | None, frame: Any) -> None:
        _, future = self._requests.get(_number(ref), (None, None))
        if future is not None and not future.done():
            future.set_result(frame)

    def _failed(self, frame: frames.Failure) -> None:
        error = error_of(frame.error)
        asker = self._gets.pop(_number(frame.ref), None)
        if asker is not None:
            asker.feed.answer_failed()
            if isinstance(error, Unavailable):
                asyncio.get_running_loop().call_later(self._backoff.first_s * 4, self._wake.set)
            elif not asker.ended:  # else the broker no longer knows it, and said so
                asker.error = error
                asker.changed.set()
            return
        _, future = self._requests.get(_number(frame.ref), (None, None))
        if future is not None and not future.done():
            future.set_exception(error)
        elif future is None:
            log.warning("the broker reports: %s", error)


_BACKGROUND: set[asyncio.Task[None]] = set()


def _number(ref: Any) -> int:
    return ref if isinstance(ref, int) else -1


def _refused(error: InvalidStatus) -> TocsinError:
    status, body = error.response.status_code, error.response.body
    known = read_error(body or b"")
    if known is not None:
        return known
    kind = Unauthenticated if status == 401 else Unavailable
    return kind(f"the broker refused the connection with status {status}")
