"""WebSocket connections by picows: parsed frames, coalesced bounded writes.

Knows frames and tokens, not subscriptions: a `Handler` decides what a request means. A client
that does not read costs a bounded number of bytes and is closed; nobody waits for it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import structlog
from picows import (
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_create_server,
)

from tocsin.broker.server.fragments import Fragments
from tocsin.broker.server.message import Message, SharedWrites
from tocsin.broker.server.requests import Malformed, parse
from tocsin.broker.server.upgrades import QUIET, Asked, Entrance, RefusedSocket, let_in, upgrade
from tocsin.errors import InvalidInput, QuotaExceeded, TocsinError, TooLarge, UpgradeRequired
from tocsin.protocol import client as frames
from tocsin.protocol.client import PATH
from tocsin.protocol.failure import error_info
from tocsin.protocol.version import check_peer
from tocsin.service.exposure import EVERYTHING_HERE, Exposure
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.listener import Listener
from tocsin.service.serving import BACKLOG, port_of
from tocsin.service.tls import HANDSHAKE_S
from tocsin.service.tokens import Identity

log = structlog.get_logger()

PING_IDLE_S = 20.0  # a silent connection is asked whether it lives
LINGER_S = 2.0  # how long a closed connection may take to read the close frame
FRAMES_WAITING = 4  # no more is read while so many frames of the largest size wait
HOLDING = frames.Subscribe | frames.Unsubscribe | frames.Publish
OUTSTANDING_SUBSCRIBES = 1000
OUTSTANDING_GETS = 4  # further requests of a connection wait, in order, until one is answered


class Handler(Protocol):
    """What the broker does with connections. All calls come from the event loop, none waits."""

    def opened(self, connection: Socket) -> None: ...
    def received(self, connection: Socket, request: frames.SingleRequest) -> None: ...
    def gone(self, connection: Socket) -> None: ...


class Socket(WSListener):
    """One client's connection."""

    def __init__(
        self, hub: Sockets, identity: Identity, inline: bool, token: str, *, batch: bool = False
    ) -> None:
        self.identity = identity
        self.token = token  # to speak in its owner's name
        self.inline = inline
        self.batch = batch
        self.number = 0  # the broker's own, once it welcomed the client
        self.paused = False  # the transport is backed up
        self._hub = hub
        self._transport: WSTransport | None = None
        self._out: list[Message] = []
        self._out_bytes = 0
        self._signals: dict[int, Message] = {}  # newest per backend subscription
        self._waiting: deque[tuple[frames.SingleRequest, int]] = deque()
        self._waiting_bytes = 0
        self._gets = 0
        self._held = 1  # answers that must come first: the welcome, and those of some requests
        self._subscribing = False  # all of these are to subscriptions: more may go along
        self._fragments = Fragments(hub.frame_limit_bytes)
        self._closing = False
        self._expiry: asyncio.TimerHandle | None = None
        self.unsent_before = 0
        self.drained_at = 0.0

    # What the broker calls

    def send(self, message: Message) -> None:
        """Queue an answer; it leaves with everything else of this turn of the loop."""
        if not self._closing:
            if not self._out:
                self._hub.flush_soon(self)
            self._out.append(message)
            self._out_bytes += len(message.json)

    def welcome(self, message: Message) -> None:
        self.send(message)
        self.flush()  # alone: what is sent together comes behind it
        self.go_on()

    def refuse(self, error: TocsinError) -> None:
        self.send(failure(None, error))
        over = isinstance(error, QuotaExceeded)
        self.close(frames.OVER_QUOTA if over else frames.GOING_AWAY, error.message)

    def go_on(self) -> None:
        """Something that held the requests back is over: the welcome, a subscribe, …"""
        self._held -= 1
        self._go_on()

    def answered_get(self) -> None:
        """A get was answered (or failed): the next waiting request may go on."""
        self._gets -= 1
        self._go_on()

    def signal(self, backend: int, message: Message) -> None:
        """Queue a signal; a newer one of the same backend subscription replaces it."""
        if not self._closing:
            self._signals[backend] = message
            if not self.paused:
                self._hub.flush_soon(self)

    def results(self, backend: int, message: Message, signal: Message) -> None:
        """Queue inline results; a client that is behind gets the signal alone, and asks later."""
        hub, size_bytes = self._hub, len(message.json)
        full = self._out_bytes + size_bytes > hub.connection_bytes or size_bytes > hub.high_bytes
        if full or self.paused or self.unsent_bytes > hub.high_bytes:
            self.signal(backend, signal)
        else:
            self.send(message)

    def close(self, code: int, reason: str) -> None:
        """Say why, then hang up. A client that does not read even that is cut off shortly."""
        if self._closing or self._transport is None:
            return
        transport = self._transport
        self.flush()
        self._closing = True
        transport.send_close(code, reason.encode()[:120])  # type: ignore[arg-type]
        asyncio.get_running_loop().call_later(LINGER_S, transport.disconnect, False)

    @property
    def open(self) -> bool:
        return not self._closing

    @property
    def unsent_bytes(self) -> int:
        if self._transport is None:
            return 0
        return self._transport.underlying_transport.get_write_buffer_size()

    def flush(self) -> None:
        """One write for all that is queued."""
        transport = self._transport
        if transport is None or self._closing or transport.is_disconnected:
            return
        out = self._out
        if self._signals and not self.paused:
            out.extend(self._signals.values())
            self._signals.clear()
        if out:
            self._out, self._out_bytes = [], 0
            transport.underlying_transport.write(self._hub.writes.of(out, batch=self.batch))

    # What picows calls

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        let_in(transport)
        transport.underlying_transport.set_write_buffer_limits(high=self._hub.high_bytes)
        loop = asyncio.get_running_loop()
        left_s = max(0.0, self.identity.expires_at - time.time())
        self._expiry = loop.call_later(
            left_s, self.close, frames.UNAUTHENTICATED, "the token has expired"
        )
        self._hub.connections.add(self)
        self._hub.handler.opened(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        try:
            self._frame(transport, frame)
        except Exception:  # a fault of ours: one client pays for it, and the log tells
            log.exception("a frame could not be handled")
            self.close(frames.INTERNAL, "an internal error; reconnect and resume")

    def _frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == WSMsgType.TEXT or kind == WSMsgType.CONTINUATION:
            if not self._closing:
                self._text(frame)
        elif kind == WSMsgType.CLOSE:
            if not self._closing:
                self._closing = True
                transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()
        elif kind == WSMsgType.BINARY:
            self.close(frames.MALFORMED, "frames are JSON text, not binary")

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._closing = True
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._expiry is not None:
            self._expiry.cancel()
        self._hub.connections.discard(self)
        self._hub.backed_up.discard(self)
        self._hub.handler.gone(self)

    def pause_writing(self) -> None:
        self.paused = True
        self.unsent_before = self.unsent_bytes
        self.drained_at = time.monotonic()
        self._hub.backed_up.add(self)

    def resume_writing(self) -> None:
        self.paused = False
        self._hub.backed_up.discard(self)
        self._go_on()
        self._hub.flush_soon(self)

    def _text(self, frame: WSFrame) -> None:
        try:
            data = self._fragments.add(frame)
            if data is None:
                return
            request = parse(data)
        except TooLarge as error:
            self.close(frames.TOO_LARGE, error.message)
            return
        except Malformed as error:
            self.send(failure(error.ref, error.error))
            if error.fatal:
                self.close(frames.MALFORMED, error.error.message)
            return
        if isinstance(request, frames.GetMany):
            share_bytes = len(data) // max(1, len(request.gets))
            self._waiting.extend((get, share_bytes) for get in request.gets)
            self._waiting_bytes += share_bytes * len(request.gets)
        else:
            self._waiting.append((request, len(data)))
            self._waiting_bytes += len(data)
        self._go_on()

    def _go_on(self) -> None:
        """Hand on waiting requests in order, as far as the answers have room."""
        while self._waiting and self._may_go_on and not self.paused and not self._closing:
            if isinstance(self._waiting[0][0], frames.Get):
                if self._gets >= OUTSTANDING_GETS:
                    break
                self._gets += 1
            request, size_bytes = self._waiting.popleft()
            self._waiting_bytes -= size_bytes
            # Later requests may rely on what these do at the cluster; records keep their order.
            if isinstance(request, HOLDING):
                self._held += 1
                self._subscribing = isinstance(request, frames.Subscribe)
            try:
                self._hub.handler.received(self, request)
            except Exception:  # a fault of ours: the request pays for it, and the log tells
                log.exception("a request could not be handled", op=type(request).__name__)
                self._give_up(request)
        self._throttle()

    @property
    def _may_go_on(self) -> bool:
        """Whether the next request need not wait for an answer. Subscriptions that follow each
        other are asked of the cluster together."""
        if not self._held:
            return True
        subscribes = isinstance(self._waiting[0][0], frames.Subscribe)
        return self._subscribing and subscribes and self._held < OUTSTANDING_SUBSCRIBES

    def _give_up(self, request: frames.SingleRequest) -> None:
        """It gets no other answer. What waits behind it goes on."""
        self._gets -= isinstance(request, frames.Get)
        self._held -= isinstance(request, HOLDING)
        ref = None if isinstance(request, frames.Ack | frames.AckMany) else request.ref
        self.send(failure(ref, TocsinError("an internal error; the broker's log has the details")))

    def _throttle(self) -> None:
        """Read no more from a client that has many requests waiting: TCP makes it wait."""
        if self._transport is None or self._transport.is_disconnected:
            return
        underlying = self._transport.underlying_transport
        many = len(self._waiting) >= self._hub.most_waiting
        if many or self._waiting_bytes >= FRAMES_WAITING * self._hub.frame_limit_bytes:
            underlying.pause_reading()
        elif not underlying.is_reading():
            underlying.resume_reading()


class Sockets:
    """The WebSocket server: all connections, and the turn of the loop in which they are flushed."""

    most_waiting = 256

    def __init__(
        self,
        handler: Handler,
        *,
        verifier: TokenVerifier,
        frame_limit_bytes: int,
        connection_bytes: int,
        stall_s: float,
        stalled: Callable[[], None],
        exposure: Exposure = EVERYTHING_HERE,
        others: Mapping[str, Entrance] | None = None,
    ) -> None:
        """`others`: what else may be connected to here, by path."""
        self.handler = handler
        self.frame_limit_bytes = frame_limit_bytes
        self.connection_bytes = connection_bytes
        self.port = 0
        self._exposure = exposure
        self.high_bytes = max(1, connection_bytes // 4)
        self.connections: set[Socket] = set()
        self.backed_up: set[Socket] = set()
        self._verifier = verifier
        self._paths = {PATH: Entrance(self._accept, token_in_query=True), **(others or {})}
        self._stall_s = stall_s
        self._stalled = stalled
        self._dirty: dict[Socket, None] = {}
        self.writes = SharedWrites()
        self._server: asyncio.Server | None = None

    async def start(self, listener: Listener, tls: ssl.SSLContext | None = None) -> None:
        self.port = port_of(listener)
        self._server = await ws_create_server(
            partial(upgrade, verifier=self._verifier, paths=self._paths, exposure=self._exposure),
            sock=listener,
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
            use_aiofastnet=True,  # asks the listener for each connection, and so keeps its limits
            websocket_handshake_timeout=listener.connections.limits.head_s,
            enable_auto_ping=True,
            auto_ping_idle_timeout=PING_IDLE_S,
            auto_ping_reply_timeout=PING_IDLE_S,
            max_frame_size=self.frame_limit_bytes,
            logger_name=QUIET,
        )

    async def stop(self) -> None:
        """No new connections; close the open ones so that they reconnect elsewhere."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections):
            connection.close(frames.GOING_AWAY, "the broker is shutting down")
        deadline = time.monotonic() + LINGER_S
        while self.connections and time.monotonic() < deadline:  # noqa: ASYNC110 (bounded)
            await asyncio.sleep(0.01)
        self.abort()

    def abort(self) -> None:
        """Cut every connection, as a crash would."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            if connection._transport is not None:
                connection._transport.disconnect(False)

    def flush_soon(self, connection: Socket) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._flush)
        self._dirty[connection] = None

    def close_stalled(self, now: float) -> None:
        """Close clients that let their bytes lie: no drain at all for a while, or, over their
        budget, for a quarter of that."""
        for connection in list(self.backed_up):
            unsent_bytes = connection.unsent_bytes
            if unsent_bytes < connection.unsent_before:
                connection.drained_at = now
            connection.unsent_before = unsent_bytes
            patience_s = self._stall_s
            if unsent_bytes > self.connection_bytes:
                patience_s /= 4
            if now - connection.drained_at >= patience_s:
                self.backed_up.discard(connection)
                self._stalled()
                log.info("closed a stalled client", subscriber=connection.identity.subject)
                connection.close(frames.COME_AGAIN, "stalled: reconnect and resume")

    def close_revoked(self) -> None:
        """Close clients whose token is no longer taken."""
        for connection in list(self.connections):
            reason = self._verifier.refusal(connection.identity)
            if reason is not None:
                connection.close(frames.UNAUTHENTICATED, reason)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            connection.flush()
        self.writes.forget()

    def _accept(self, asked: Asked) -> WSListener:
        asked.identity.require("subscribe")
        try:
            check_peer(asked.protocol, "the client", "this broker")
        except UpgradeRequired as error:
            if asked.in_header:
                raise
            return RefusedSocket(frames.UPGRADE_REQUIRED, error)
        inline, batch = _switch(asked, "inline"), _switch(asked, "batch")
        return Socket(self, asked.identity, inline, asked.token, batch=batch)


def _switch(asked: Asked, name: str) -> bool:
    given = asked.first(name) or "0"
    if given not in ("0", "1"):
        raise InvalidInput(f"{name} is 0 or 1", field=name)
    return given == "1"


def failure(ref: frames.Ref | None, error: TocsinError) -> Message:
    return Message("error", frames.encode(frames.Failure(error_info(error), ref)))
