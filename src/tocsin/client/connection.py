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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from tocsin.backoff import Backoff
from tocsin.client.feed import Feed, Result
from tocsin.client.feeds import Feeds
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
T = TypeVar("T")

SETTLE_S = 2.0  # how long closing waits for the last acknowledgements
GATHER_S = 0.02  # how long acknowledgements wait for others; brokers gather longer than that
MOST_TOGETHER = 256  # in one frame: a broker takes frames of 64 KiB
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

    __slots__ = (
        *("_waiting", "arguments", "beginning", "channel", "ended", "error", "feed"),
        "settling",
    )

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
        self.ended = False  # for good, by whomever
        self.error: TocsinError | None = None
        self.settling = False  # somebody waits for a confirmation, not for results alone
        self._waiting: list[asyncio.Future[None]] | None = None  # an Event weighs a kilobyte

    def wake(self) -> None:
        """Something has changed."""
        waiting, self._waiting = self._waiting, None
        for future in waiting or ():
            if not future.done():
                future.set_result(None)

    async def changed(self) -> None:
        """Wait for the next change."""
        future = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = [future]
        else:
            self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if self._waiting is not None and future in self._waiting:
                self._waiting.remove(future)
            raise


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
        batch: bool = True,
    ) -> None:
        """`batch`: take and send several frames in one, if the broker does."""
        self._locate = locate
        self._find = find
        self._authority = authority
        self._token = token
        self._inline = inline
        self._batch = batch
        self._session_number = 0
        self._together = False  # the broker at the other end takes several frames in one
        self._backoff = Backoff(Random(), most_s=most_s)
        self._refs = itertools.count(1)
        self._listeners: dict[int, Listener] = {}  # by subscription id
        self._requests: dict[int, tuple[frames.Request, asyncio.Future[Any]]] = {}
        self._unsent: list[frames.Request] = []
        self._subscribing: dict[int, Listener] = {}
        self._feeds = Feeds()
        self._gets: dict[int, Feed] = {}
        self._wake = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None
        self._acknowledgements_due = False
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
        self.hasten()
        deadline = time.monotonic() + SETTLE_S
        while self.broker and not self._settled and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._gathering is not None:
            self._gathering.cancel()
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
        number = listener.feed.subscription
        assert number, "it was subscribed to"
        self.forget(listener)
        ref = next(self._refs)
        # Sent again after a lost answer it is unknown: that is what was wanted.
        with contextlib.suppress(NotFound):
            await self._request(ref, frames.Unsubscribe(ref, number))

    def forget(self, listener: Listener) -> None:
        self._forget(listener.feed.subscription)

    def take(self, listener: Listener) -> Result | None:
        """The next result for the application."""
        result = self._feeds.take(listener.feed)
        if self._feeds.wanting:
            self._wake.set()
        return result

    def acknowledge(self, listener: Listener, result: Result) -> None:
        """The application is done with everything up to this result. That is sent with what others
        acknowledge within a moment."""
        self._feeds.acknowledge(listener.feed, result)
        self._gather()

    def hasten(self) -> None:
        """Somebody waits for acknowledgements: they are sent now."""
        self._acknowledgements_due = True
        self._wake.set()

    def _gather(self) -> None:
        if self._feeds.acknowledging >= MOST_TOGETHER:
            if not self._acknowledgements_due:
                self.hasten()
        elif self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(GATHER_S, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self.hasten()

    @property
    def _settled(self) -> bool:
        return all(feed.settled for feed in self._feeds)

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
            listener.wake()

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
        mark = "&" if "?" in address.ws_url else "?"
        url = f"{address.ws_url}{mark}inline={int(self._inline)}&batch={int(self._batch)}"
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
        self._together = welcome.batch is True
        self._open_again(welcome)
        self.broker = welcome.broker
        started_at = time.monotonic()
        self._avoid = None
        self._opened.set()
        sender = asyncio.create_task(self._send(socket))
        try:
            while True:
                self._receive(await socket.recv(decode=False))
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
        self._session_number += 1
        self._gets.clear()
        self._unsent = [request for request, _ in self._requests.values()]
        anew = self._store_id not in (None, welcome.store_id)
        self._store_id = welcome.store_id
        for number in list(self._listeners):
            if anew:  # this cluster has never heard of us
                listener = self._listeners[number]
                self._forget(number)
                self._subscribe_again(listener)
            elif number in served:
                self._feeds.opened(self._listeners[number].feed, served[number])
            else:
                self._ended(number)
        self.hasten()

    def _listen(self, listener: Listener, info: frames.SubscriptionInfo) -> None:
        """The broker serves it."""
        self._feeds.opened(listener.feed, info)
        self._listeners[info.subscription] = listener
        self._wake.set()

    def _forget(self, number: int) -> Listener | None:
        self._feeds.remove(number)
        return self._listeners.pop(number, None)

    def _ended(self, number: int) -> None:
        listener = self._forget(number)
        if listener is not None:
            listener.ended = True
            listener.wake()

    def _subscribe_again(self, listener: Listener) -> None:
        async def again() -> None:
            try:
                await self.subscribe(listener)
            except TocsinError as error:
                listener.error = error
                listener.wake()

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
        if self._acknowledgements_due:
            self._acknowledgements_due = False
            due += self._acknowledgements()
        gets = []
        for feed, wanted in self._feeds.wanted():
            ref = next(self._refs)
            self._gets[ref] = feed
            after, epoch, limit = wanted.after, wanted.epoch, wanted.limit
            gets.append(frames.Get(ref, feed.subscription, after, epoch, limit))
        if self._together and len(gets) > 1:
            due += map(frames.GetMany, _together(gets))
        else:
            due += gets
        return due

    def _acknowledgements(self) -> list[frames.Request]:
        markers = self._feeds.acknowledgements()
        if self._together:
            return list(map(frames.AckMany, _together(markers)))
        return [
            frames.Ack(marker.epoch, marker.position, subscription=marker.subscription)
            for marker in markers
        ]

    def _receive(self, message: bytes) -> None:
        try:
            frame = frames.decode_answer(message)
        except msgspec.DecodeError as error:
            self._receive_loosely(message, error)
            return
        if type(frame) is frames.Batch:
            for part in frame.frames:
                self._handle(part)
        else:
            self._handle(frame)
        if self._feeds.wanting:
            self._wake.set()
        if self._feeds.acknowledging:
            self._gather()

    def _receive_loosely(self, message: bytes, error: msgspec.DecodeError) -> None:
        """What can be understood of a batch is taken."""
        with contextlib.suppress(msgspec.DecodeError):
            for part in frames.decode_batch(message).frames:
                self._receive(bytes(part))
            return
        log.warning("a frame of the broker was not understood and is left out: %s", error)

    def _handle(self, frame: frames.Answer) -> None:
        match frame:
            case frames.ResultsFrame(ref=ref):
                self._results(frame, ref)
            case frames.Signal():
                self._feeds.signalled(frame)
            case frames.AckedMany(markers):
                for marker in markers:
                    self._confirmed(marker.subscription, marker.epoch, marker.position)
            case frames.Acked():
                self._confirmed(frame.subscription, frame.epoch, frame.position)
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

    def _results(self, frame: frames.ResultsFrame[Any], ref: Any) -> None:
        if ref is UNSET:
            for feed in self._feeds.sent_inline(frame):
                self._listeners[feed.subscription].wake()
            return
        asker = self._gets.pop(_number(ref), None)
        if asker is not None:
            self._feeds.answered(asker, frame)
            self._wake_listener(asker)

    def _confirmed(self, subscription: int, epoch: str, position: int) -> None:
        feed = self._feeds.confirmed(subscription, epoch, position)
        listener = self._listeners.get(subscription)
        if feed is not None and listener is not None and listener.settling and feed.settled:
            listener.wake()

    def _wake_listener(self, feed: Feed) -> None:
        listener = self._listeners.get(feed.subscription)
        if listener is not None and listener.feed is feed:
            listener.wake()

    def _subscribed(self, frame: frames.Subscribed) -> None:
        # At once, not when the waiting task runs again: the next frame may already be a signal.
        listener = self._subscribing.get(_number(frame.ref))
        if listener is None:
            return
        info = frame.subscription
        if self._listeners.get(info.subscription, listener) is not listener:
            _, future = self._requests[_number(frame.ref)]
            message = f"this client already listens to {info.channel} with these arguments"
            future.set_exception(Conflict(message, hint="iterate the first subscription"))
            return
        self._listen(listener, info)
        self._answer(frame.ref, frame)

    def _answer(self, ref: frames.Ref | None, frame: Any) -> None:
        _, future = self._requests.get(_number(ref), (None, None))
        if future is not None and not future.done():
            future.set_result(frame)

    def _failed(self, frame: frames.Failure) -> None:
        error = error_of(frame.error)
        asker = self._gets.pop(_number(frame.ref), None)
        if asker is not None:
            listener = self._listeners.get(asker.subscription)
            if isinstance(error, Unavailable):
                wait_s, loop = self._backoff.first_s * 4, asyncio.get_running_loop()
                loop.call_later(wait_s, self._ask_again, asker, self._session_number)
            elif listener is not None and listener.feed is asker:  # else the broker said it is over
                asker.answer_failed()
                listener.error = error
                listener.wake()
            return
        _, future = self._requests.get(_number(frame.ref), (None, None))
        if future is not None and not future.done():
            future.set_exception(error)
        elif future is None:
            log.warning("the broker reports: %s", error)

    def _ask_again(self, feed: Feed, session: int) -> None:
        if session == self._session_number:  # else it was asked for again since
            self._feeds.failed(feed)
            self._wake.set()


_BACKGROUND: set[asyncio.Task[None]] = set()


def _together(items: Sequence[T]) -> Iterator[list[T]]:
    """What goes into one frame, frame by frame."""
    for start in range(0, len(items), MOST_TOGETHER):
        yield list(items[start : start + MOST_TOGETHER])


def _number(ref: Any) -> int:
    return ref if isinstance(ref, int) else -1


def _refused(error: InvalidStatus) -> TocsinError:
    status, body = error.response.status_code, error.response.body
    known = read_error(body or b"")
    if known is not None:
        return known
    kind = Unauthenticated if status == 401 else Unavailable
    return kind(f"the broker refused the connection with status {status}")
