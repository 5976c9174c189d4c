"""The clients' connections, and the machine's words to them.

Knows neither the cluster nor how bytes travel: a `ClientConnection` is a WebSocket or an event
stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Protocol

from tocsin.broker.machine.effects import (
    Acked,
    AckedMany,
    CloseConnection,
    Ended,
    NotAcked,
    Refuse,
    SendInline,
    Signal,
    Welcome,
)
from tocsin.broker.server import encoding
from tocsin.broker.server.message import Message
from tocsin.broker.server.metrics import Counts
from tocsin.errors import QuotaExceeded, TocsinError
from tocsin.protocol import client as frames
from tocsin.service.quotas import refusal
from tocsin.service.tokens import Identity


class ClientConnection(Protocol):
    """A client's connection, by WebSocket or SSE."""

    identity: Identity
    token: str  # to speak in its owner's name
    inline: bool
    batch: bool  # it takes several frames in one
    number: int

    def welcome(self, message: Message) -> None: ...
    def refuse(self, error: TocsinError) -> None: ...
    def send(self, message: Message) -> None: ...
    def signal(self, backend: int, message: Message) -> None: ...
    def results(self, backend: int, message: Message, signal: Message) -> None: ...
    def close(self, code: int, reason: str) -> None: ...


class ClientConnections:
    def __init__(self, broker: str, counts: Counts) -> None:
        self._broker = broker
        self._counts = counts
        self._numbers = itertools.count(1)
        self._connections: dict[int, ClientConnection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: ClientConnection) -> None:
        connection.number = next(self._numbers)
        self._connections[connection.number] = connection

    def remove(self, connection: ClientConnection) -> bool:
        """Whether it was here."""
        return self._connections.pop(connection.number, None) is not None

    def of_numbers(self, numbers: Iterable[int]) -> list[ClientConnection]:
        """The connections of these numbers that are still here."""
        return self._of(numbers)

    # Effects

    def welcome(self, effect: Welcome) -> None:
        connection = self._connections[effect.connection]
        connection.welcome(encoding.welcome_message(self._broker, effect, connection.batch))

    def refuse(self, effect: Refuse) -> None:
        error = effect.error
        if isinstance(error, QuotaExceeded):
            error = refusal(error)
        self._connections.pop(effect.connection).refuse(error)

    def signal(self, effect: Signal) -> None:
        message = encoding.signal_message(effect)
        for connection in self._of(effect.connections):
            self._counts.signals += 1
            connection.signal(effect.backend, message)

    def send_inline(self, effect: SendInline) -> None:
        message, signal = encoding.inline_message(effect), encoding.signal_message(effect)
        for connection in self._of(effect.connections):
            self._counts.delivered += len(effect.results)
            connection.results(effect.backend, message, signal)

    def acked(self, effect: Acked) -> None:
        self._send(encoding.acked_message(effect), effect.connections)
        for request in effect.requests:
            request.answered(effect)

    def acked_many(self, effect: AckedMany) -> None:
        self._send(encoding.acked_many_message(effect), [effect.connection])

    def not_acked(self, effect: NotAcked) -> None:
        self._send(encoding.not_acked_message(effect), effect.connections)

    def ended(self, effect: Ended) -> None:
        self._send(encoding.ended_message(effect), effect.connections)

    def close(self, effect: CloseConnection) -> None:
        connection = self._connections.pop(effect.connection, None)
        if connection is None:
            return
        if effect.moved_to is not None:
            connection.send(encoding.moved_message(effect.moved_to))
            connection.close(frames.MOVED, f"moved: broker {effect.moved_to} serves you now")
        elif effect.store_replaced:
            connection.close(frames.GOING_AWAY, "the cluster was replaced: reconnect")
        else:
            connection.close(frames.COME_AGAIN, "your subscriptions changed: reconnect and resume")

    def _of(self, numbers: Iterable[int]) -> list[ClientConnection]:
        connections = self._connections
        return [connections[number] for number in numbers if number in connections]

    def _send(self, message: Message, connections: Iterable[int]) -> None:
        for connection in self._of(connections):
            connection.send(message)
