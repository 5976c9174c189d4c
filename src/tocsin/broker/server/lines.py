"""The clients' connections, and the core's words to those who listen or wait for an answer.

Knows neither the cluster nor how bytes travel: a `Line` is a WebSocket or an event stream, an
`Asker` is whoever waits, by whichever way it asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Protocol

from tocsin.broker.effects import (
    Acked,
    Answer,
    CloseConnection,
    Ended,
    Fail,
    NotAcked,
    SendInline,
    Signal,
)
from tocsin.broker.server import encoding
from tocsin.broker.server.message import Message
from tocsin.broker.server.metrics import Counts
from tocsin.client import frames
from tocsin.errors import TocsinError
from tocsin.service.tokens import Identity

Word = Signal | SendInline | Answer | Fail | Acked | NotAcked | Ended | CloseConnection


class Line(Protocol):
    """A client's connection, by WebSocket or SSE."""

    identity: Identity
    inline: bool
    number: int

    @property
    def open(self) -> bool: ...
    def send(self, message: Message) -> None: ...
    def signal(self, backend: int, message: Message) -> None: ...
    def results(self, backend: int, message: Message, signal: Message) -> None: ...
    def close(self, code: int, reason: str) -> None: ...


class Asker(Protocol):
    """Who waits for the Answer to a get, or for the position of a durable acknowledgement."""

    def answered(self, answer: Any) -> None: ...
    def failed(self, error: TocsinError) -> None: ...


class Lines:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._numbers = itertools.count(1)
        self._lines: dict[int, Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: Line) -> None:
        line.number = next(self._numbers)
        self._lines[line.number] = line

    def remove(self, line: Line) -> bool:
        """Whether it was here."""
        return self._lines.pop(line.number, None) is not None

    def close_all(self, code: int, reason: str) -> None:
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.close(code, reason)

    def tell(self, word: Word) -> None:
        match word:
            case SendInline():
                self._inline(word)
            case Signal():
                message = encoding.signal_message(word)
                for line in self._of(word.connections):
                    self._counts.signals += 1
                    line.signal(word.backend, message)
            case Answer():
                word.request.answered(word)
            case Fail():
                if word.request is not None:
                    word.request.failed(word.error)
            case Acked():
                self._send(encoding.acked_message(word), word.connections)
                for asker in word.requests:
                    asker.answered(word.position)
            case NotAcked():
                self._send(encoding.not_acked_message(word), word.connections)
            case Ended():
                self._send(encoding.ended_message(word), word.connections)
            case CloseConnection():
                self._close(word)

    def _of(self, numbers: Iterable[int]) -> list[Line]:
        lines = self._lines
        return [lines[number] for number in numbers if number in lines]

    def _send(self, message: Message, connections: Iterable[int]) -> None:
        for line in self._of(connections):
            line.send(message)

    def _inline(self, word: SendInline) -> None:
        message, signal = encoding.inline_message(word), encoding.signal_message(word)
        for line in self._of(word.connections):
            self._counts.delivered += len(word.results)
            line.results(word.backend, message, signal)

    def _close(self, word: CloseConnection) -> None:
        line = self._lines.pop(word.connection, None)
        if line is None:
            return
        if word.moved_to is None:
            line.close(frames.COME_AGAIN, "your subscriptions changed: reconnect and resume")
        else:
            line.send(encoding.moved_message(word.moved_to))
            line.close(frames.MOVED, f"moved: broker {word.moved_to} serves you now")
