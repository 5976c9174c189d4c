"""The links of a broker. Each message over a link counts once, in order.

A link that was closed and opened again is another incarnation: what comes late from an earlier one
is dropped, and so is a repeated message. When a message is missing, the link is closed.
"""

from __future__ import annotations

from tocsin.overlay.routing.effects import Relink, RoutingEffect, Send
from tocsin.protocol.link import Message


class _Link:
    __slots__ = ("incarnation", "received", "sent")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.sent = 0
        self.received = 0


class Links:
    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}
        self._effects: list[RoutingEffect] = []

    def __contains__(self, neighbour: object) -> bool:
        return neighbour in self._links

    def names(self) -> list[str]:
        return list(self._links)

    def incarnation(self, neighbour: str) -> int:
        return self._links[neighbour].incarnation

    def open(self, neighbour: str, incarnation: int) -> None:
        self._links[neighbour] = _Link(incarnation)

    def close(self, neighbour: str) -> None:
        del self._links[neighbour]

    def is_open(self, neighbour: str, incarnation: int) -> bool:
        link = self._links.get(neighbour)
        return link is not None and link.incarnation == incarnation

    def counts(self, neighbour: str, incarnation: int, sequence: int) -> bool:
        """Is this the next message of the link as it is now?"""
        link = self._links.get(neighbour)
        if link is None or link.incarnation != incarnation or sequence <= link.received:
            return False
        if sequence > link.received + 1:
            self.do(Relink(neighbour, incarnation))
            return False
        link.received = sequence
        return True

    def send(self, neighbour: str, message: Message) -> int:
        """The number of the message on its link."""
        link = self._links[neighbour]
        link.sent += 1
        self.do(Send(neighbour, link.incarnation, link.sent, message))
        return link.sent

    def do(self, effect: RoutingEffect) -> None:
        self._effects.append(effect)

    def take(self) -> list[RoutingEffect]:
        effects, self._effects = self._effects, []
        return effects
