"""One incarnation of a link between two brokers: a WebSocket, whichever of the two has dialled it.

Messages travel as JSON text, `[sequence, message]`, and leave together with all others of the same
turn of the loop. A peer that says nothing, does not read or sends what is no message is cut off.
Must not know which links there are to be, nor what messages mean.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

import msgspec
import structlog
from msgspec import Struct
from picows import WSFrame, WSListener, WSMsgType, WSTransport
from websockets.frames import Frame, Opcode

from tocsin.broker.server.fragments import Fragments
from tocsin.broker.server.upgrades import let_in
from tocsin.errors import TooLarge, UpgradeRequired
from tocsin.protocol.client import COME_AGAIN, INTERNAL, MALFORMED, TOO_LARGE
from tocsin.protocol.link import Message, Question, Request, Response, decode, encode
from tocsin.protocol.nesting import WRAPPED_DEPTH, too_deep
from tocsin.protocol.version import HEADER
from tocsin.service.tokens import Identity

log = structlog.get_logger()

ASKING = Request | Response | Question
"""Whoever asks goes on without an answer."""
FRAME_BYTES = 32 * 1024
SILENT_BEATS = 4  # a peer from which nothing came for so many is dead


class Limits(Struct, frozen=True, kw_only=True):
    """Of every link of a broker."""

    unsent_bytes: int = 64 * 1024 * 1024  # in all, and of one message: a whole subscription table
    frame_bytes: int = FRAME_BYTES  # what any neighbour takes: a longer message is sent in parts
    beat_s: float = 1.0
    most_backoff_s: float = 1.0  # whoever refuses us may hear of us with its next heartbeat


class LinkCounts(Struct):
    """Of all links of a broker."""

    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    relinks: int = 0


class Hub(Protocol):
    """What a link belongs to. All calls come from the event loop."""

    counts: LinkCounts
    limits: Limits

    def opened(self, link: Link) -> None: ...
    def received(self, link: Link, sequence: int, message: Message) -> None: ...
    def lost(self, link: Link) -> None: ...
    def flush_soon(self, link: Link) -> None: ...


class Link(WSListener):
    def __init__(self, hub: Hub, neighbour: str, incarnation: int, *, dialled: bool) -> None:
        self.neighbour = neighbour
        self.incarnation = incarnation
        self.store_id: str | None = None  # of the store that both brokers were with
        self.identity: Identity | None = None  # that the neighbour showed, if it dialled
        self.transport: WSTransport | None = None
        self.opened_at = 0.0
        self.refused: UpgradeRequired | None = None  # why we gave it up as soon as it was there
        self._hub = hub
        self._dialled = dialled  # then our frames are masked, as a client's must be
        self._cut = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._fragments = Fragments(hub.limits.unsent_bytes)
        self._heard = True
        self._silent = 0  # beats in which it did nothing
        self._written_bytes = 0
        self._waiting_bytes = 0  # unsent at the last beat, …
        self._taken_bytes = 0  # … and taken by the peer, or at least by the network, until then

    @property
    def peer_version(self) -> str | None:
        """The version of the protocol that whoever we dialled told us."""
        if not self._dialled or self.transport is None or self.transport.response is None:
            return None
        version: str | None = self.transport.response.headers.get(HEADER)
        return version

    def send(self, sequence: int, message: Message) -> None:
        """Queue a message. What is sent over a link that is no longer there is lost."""
        if self._cut:
            return
        # One that is larger than the limit passes if nothing waits, or it would never.
        if self._unsent_bytes + self._out_bytes > self._hub.limits.unsent_bytes:
            self.cut(COME_AGAIN, f"more than {self._hub.limits.unsent_bytes} bytes were not read")
            return
        if not self._out:
            self._hub.flush_soon(self)
        for frame in self._frames(encode((sequence, message))):
            self._out.append(frame)
            self._out_bytes += len(frame)
        self._hub.counts.messages_out += 1

    def flush(self) -> None:
        """One write for all that is queued."""
        out, self._out = self._out, []
        size_bytes, self._out_bytes = self._out_bytes, 0
        if out and self.transport is not None and not self._cut:
            self.transport.underlying_transport.write(b"".join(out))
            self._written_bytes += size_bytes
            self._hub.counts.bytes_out += size_bytes

    def cut(self, code: int, reason: str) -> None:
        """Say why if the peer reads, and hang up at once. That the link is gone is told later, in a
        turn of the loop of its own."""
        if self._cut or self.transport is None:
            self._cut = True
            return
        self._cut = True
        self._out, self._out_bytes = [], 0
        log.info("cut a link", neighbour=self.neighbour, reason=reason)
        reads = not self._unsent_bytes
        if reads:
            self.transport.send_close(code, reason.encode()[:120])  # type: ignore[arg-type]
        self.transport.disconnect(reads)

    def beat(self) -> None:
        """To be called regularly. The peer is asked whether it lives; one that has long neither
        answered nor taken any of what waits for it is cut off."""
        if self._cut or self.transport is None:
            return
        waiting_bytes = self._unsent_bytes
        taken_bytes = self._written_bytes - waiting_bytes
        # Only what waited shows that it reads: the network takes some from us in any case.
        reads = self._waiting_bytes > 0 and taken_bytes > self._taken_bytes
        self._silent = 0 if self._heard or reads else self._silent + 1
        self._heard = False
        self._waiting_bytes, self._taken_bytes = waiting_bytes, taken_bytes
        if self._silent >= SILENT_BEATS:
            self.cut(COME_AGAIN, "the neighbour is silent")
        else:
            self.transport.send_ping()

    @property
    def _unsent_bytes(self) -> int:
        if self.transport is None:
            return 0
        return self.transport.underlying_transport.get_write_buffer_size()

    def _frames(self, payload: bytes) -> Iterator[bytes]:
        step, end = self._hub.limits.frame_bytes, len(payload)
        for at in range(0, end, step):
            kind = Opcode.CONT if at else Opcode.TEXT
            frame = Frame(kind, payload[at : at + step], fin=at + step >= end)
            yield frame.serialize(mask=self._dialled)

    # What picows calls

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        if not self._dialled:
            let_in(transport)
        self.opened_at = time.monotonic()
        if self._cut:  # while it was dialled
            transport.disconnect(False)
            return
        try:
            self._hub.opened(self)
        except Exception:
            self._failed()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self._heard = True
        # picows reads on after it has refused a frame, until it hangs up a moment later.
        if self._cut or transport.is_close_frame_sent:
            return
        kind = frame.msg_type
        try:
            if kind == WSMsgType.TEXT or kind == WSMsgType.CONTINUATION:
                self._text(frame)
            elif kind == WSMsgType.CLOSE:
                log.info(
                    "a neighbour cut the link",
                    neighbour=self.neighbour,
                    reason=frame.get_close_message().decode("utf-8", "replace"),
                )
                self._cut = True
                transport.disconnect(False)
            elif kind == WSMsgType.BINARY:
                self._malformed("messages are JSON text, not binary")
        except Exception:
            self._failed()

    def on_ws_disconnected(self, _: WSTransport) -> None:
        self._cut = True
        try:
            self._hub.lost(self)
        except Exception:
            self._failed()

    def is_user_specific_pong(self, frame: WSFrame) -> bool:
        """The server's own pings are answered here, and do not come as frames."""
        self._heard = True
        return frame.msg_type == WSMsgType.PONG

    def pause_writing(self) -> None:
        """What waits is bounded when it is sent."""

    def resume_writing(self) -> None:
        """See above."""

    def _text(self, frame: WSFrame) -> None:
        self._hub.counts.bytes_in += frame.payload_size
        try:
            data = self._fragments.add(frame)
        except TooLarge as error:
            self.cut(TOO_LARGE, error.message)
            return
        if data is None:
            return
        if too_deep(data, WRAPPED_DEPTH):
            self._malformed(f"a message nests deeper than {WRAPPED_DEPTH} levels")
            return
        try:
            sequence, message = decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._malformed(f"this is no message: {error}")
            return
        self._hub.counts.messages_in += 1
        try:
            self._hub.received(self, sequence, message)
        except Exception:
            if not isinstance(message, ASKING):
                raise  # over a new link, what it says is said again, or read in the log
            log.exception("a question of a neighbour is set aside", neighbour=self.neighbour)

    def _failed(self) -> None:
        """A fault of ours: this link pays for it, and the log tells."""
        log.exception("a link's event could not be handled", neighbour=self.neighbour)
        self.cut(INTERNAL, "an internal error")

    def _malformed(self, reason: str) -> None:
        log.warning("a neighbour sent what is no message", neighbour=self.neighbour, reason=reason)
        self.cut(MALFORMED, reason)
