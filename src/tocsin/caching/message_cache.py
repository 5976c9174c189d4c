"""A broker's memory of messages, to answer requests for the past (overlay III, survival 2).

A list of a given number of slots: what is put comes on top, and the message at the bottom makes
room. Which messages are kept, and where one moves as its clients come and go, a `MessagePolicy`
says. Knows no filters and no brokers: whoever asks brings a function that tells what is wanted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tocsin.policies.message import MessagePolicy
from tocsin.policies.message.priority import BOTTOM, DROP, TOP

M = TypeVar("M")
K = TypeVar("K", bound=Hashable)


class _Slot(Generic[M]):
    __slots__ = ("clients", "message")

    def __init__(self, message: M, clients: int) -> None:
        self.message = message
        self.clients = clients  # of this broker, that are interested


class MessageCache(Generic[K, M]):
    def __init__(self, policy: MessagePolicy, slots: int) -> None:
        self.policy = policy
        self.slots = slots
        self._there: OrderedDict[K, _Slot[M]] = OrderedDict()  # the top is last

    def __len__(self) -> int:
        return len(self._there)

    def __contains__(self, key: object) -> bool:
        return key in self._there

    @property
    def keys(self) -> list[K]:
        """From the top down."""
        return list(reversed(self._there))

    def resize(self, slots: int) -> None:
        """Messages at the bottom make room if there are fewer."""
        self.slots = slots
        while len(self._there) > slots:
            self._there.popitem(last=False)

    def put(
        self, key: K, message: M, clients: int, neighbours: int, *, passing: bool = False
    ) -> bool:
        """A message has come that so many clients here, and neighbours besides the one it came
        from, are interested in. Is it kept? In passing, on its way to another broker's client, it
        is not kept for the clients here: none of them has asked. They count once it is."""
        keeps = self.policy.keeps(0 if passing else clients, neighbours)
        if key in self._there or self.slots < 1 or not keeps:
            return False
        if len(self._there) == self.slots:
            self._there.popitem(last=False)
        self._there[key] = _Slot(message, clients)
        return True

    def search(self, wants: Callable[[M], bool]) -> list[M]:
        """All that is wanted: every slot is looked at."""
        return [slot.message for slot in self._there.values() if wants(slot.message)]

    def came(self, wants: Callable[[M], bool]) -> None:
        """A client has come that wants these."""
        self._changed(wants, 1)

    def left(self, wants: Callable[[M], bool]) -> None:
        """Such a client has left."""
        self._changed(wants, -1)

    def _changed(self, wants: Callable[[M], bool], by: int) -> None:
        wanted = [key for key, slot in self._there.items() if wants(slot.message)]
        moves: dict[K, int] = {}
        for key in wanted:
            self._there[key].clients += by
            moves[key] = self.policy.moves(self._there[key].clients, by > 0)
        # Messages that move together keep their order.
        for key in wanted:
            if moves[key] == TOP:
                self._there.move_to_end(key)
            elif moves[key] == DROP:
                del self._there[key]
        for key in reversed(wanted):
            if moves[key] == BOTTOM:
                self._there.move_to_end(key, last=False)
