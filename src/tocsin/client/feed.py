"""What one subscription has received, given to the application and acknowledged. Sans-I/O.

Results enter in any order and as often as the network likes, and leave once, in order. Memory
is bounded: while the application is behind, nothing more is asked for. Must not know sockets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from sys import intern
from typing import Any

from msgspec import UNSET, Struct

from tocsin.model import filtered_dataset
from tocsin.protocol.client import ResultsFrame, SubscriptionInfo
from tocsin.protocol.gap import LostRecords, decode_gap


class Gap(Struct, frozen=True):
    """Results that existed and can no longer be had, or that could not be made: then `records` says
    of which records. `last` is None if nobody knows how many."""

    channel: str
    first: int
    last: int | None
    reason: str
    records: LostRecords | None = None


class Result(Struct, frozen=True):
    """One result. `gap` tells what was lost between the result before and this one."""

    value: Any
    position: int
    at: float  # when the result was made, seconds since the epoch
    channel: str
    epoch: str
    gap: Gap | None = None
    subscription: int = 0


class Wanted(Struct, frozen=True):
    """A get that should be sent now."""

    after: int
    epoch: str
    limit: int


class Feed:
    """The state of one subscription at the client. Applications may have very many of them: what
    most do not need is made when it is needed."""

    __slots__ = (
        "_acknowledged",
        "_acknowledgement_sent",
        "_buffer",
        "_gap",
        "_gaps",
        "_has_holes",
        "_head",
        "_pending",
        "_prefetch",
        "_received",
        "_untaken",
        "backend",
        "channel",
        "durable",
        "epoch",
        "on_gap",
        "subscription",
    )

    def __init__(self, prefetch: int) -> None:
        if prefetch < 1:
            raise ValueError("prefetch must be at least 1")
        self.subscription = 0  # 0: the broker has not said yet that it serves one
        self.backend = 0
        self.channel = ""
        self.epoch = ""
        self._has_holes = False  # positions are those of a dataset's records, of which some match
        self._prefetch = prefetch
        self._buffer: deque[Result] | None = None
        self._head = 0
        self._received = 0  # every position up to here was received or is told as a gap
        self._pending = False
        self._gap: Gap | None = None
        self._acknowledged = 0
        self._acknowledgement_sent = 0
        self._untaken: set[int] | None = None  # positions of gaps: nobody acknowledges them
        self.durable = 0  # the newest acknowledgement that the broker confirmed
        self._gaps: list[Gap] | None = None
        self.on_gap: Callable[[Gap], None] | None = None

    @property
    def position(self) -> int:
        return self._received

    @property
    def buffered(self) -> int:
        """How many results wait for the application."""
        return 0 if self._buffer is None else len(self._buffer)

    @property
    def gaps(self) -> list[Gap]:
        """Every loss so far."""
        return [] if self._gaps is None else self._gaps

    def opened(self, info: SubscriptionInfo) -> None:
        """The broker serves the subscription, for the first time or again after a reconnection."""
        known, epoch = self.subscription, self.epoch
        self.subscription, self.backend = info.subscription, info.backend
        self.channel = intern(info.channel)
        self._has_holes = filtered_dataset(info.channel) is not None
        self._pending = False
        if not known:
            self._start(info.epoch, info.marker)
        elif epoch != info.epoch:
            self._lose(self._received + 1, None, "the backend subscription was made anew")
            self._start(info.epoch, info.marker)
        self._head = max(self._head, info.head)
        self._acknowledgement_sent = self.durable

    def signalled(self, epoch: str, head: int) -> None:
        if not self.subscription:
            return
        # A new epoch: asking with the old cursor makes the broker say what it means.
        self._head = max(self._head, head if epoch == self.epoch else self._received + 1)

    @property
    def wants(self) -> bool:
        """Whether there is something to ask for, as soon as there is room for it."""
        return self._head > self._received and not self._pending

    def wanted(self) -> Wanted | None:
        """The get to send now, if any: one at a time, and only while there is room for it."""
        if not self.subscription or not self.wants:
            return None
        room = self._prefetch - self.buffered
        if room * 2 < self._prefetch:  # wait until half is free: few large gets, not many small
            return None
        self._pending = True
        return Wanted(self._received, self.epoch, room)

    def answer_failed(self) -> None:
        """The get came to nothing; it may be sent again."""
        self._pending = False

    def arrived(self, frame: ResultsFrame[Any]) -> None:
        """Results, asked for or inline."""
        if not self.subscription:
            return
        answer = frame.ref is not UNSET
        if answer:
            self._pending = False
        if frame.epoch != self.epoch:
            if not answer:
                self.signalled(frame.epoch, frame.head)
                return
            self._lose(self._received + 1, None, "the backend subscription was made anew")
            self._start(frame.epoch, frame.after)
        self._head = max(self._head, frame.head)
        if not answer and (frame.after > self._received or self.buffered >= self._prefetch):
            return  # a hole before it, or no room for it: it will be asked for
        if frame.gap is not None and frame.gap.last > self._received:
            first = max(frame.gap.first, self._received + 1)
            self._lose(first, frame.gap.last, "no longer kept")
            self._received = frame.gap.last
        taken = self._take_in(frame)
        if taken and frame.upto > self._received and (answer or self._has_holes):
            if not self._has_holes:
                self._lose(self._received + 1, frame.upto, "missing in the answer")
            self._received = frame.upto

    def take(self) -> Result | None:
        """The next result for the application."""
        buffer = self._buffer
        if buffer is None:
            return None
        result = buffer.popleft()
        if not buffer:
            self._buffer = None
        return result

    def acknowledge(self, result: Result) -> None:
        """The application is done with everything up to this result."""
        if result.epoch == self.epoch:
            self._acknowledged = max(self._acknowledged, result.position)

    def acknowledgement(self) -> tuple[str, int] | None:
        """The cumulative acknowledgement (epoch, position) to send now, if any."""
        while self._untaken and self._acknowledged + 1 in self._untaken:
            self._acknowledged += 1
            self._untaken.remove(self._acknowledged)
        if not self.subscription or self._acknowledged <= self._acknowledgement_sent:
            return None
        self._acknowledgement_sent = self._acknowledged
        return self.epoch, self._acknowledged

    def confirmed(self, epoch: str, position: int) -> None:
        if epoch == self.epoch:  # one of a past epoch may be late
            self.durable = max(self.durable, position)

    @property
    def tells_of_gaps(self) -> bool:
        """Whether positions that nobody takes may have to be acknowledged with those before."""
        return bool(self._untaken)

    @property
    def settled(self) -> bool:
        """Whether every acknowledgement was confirmed as durable."""
        return self.durable >= self._acknowledged

    def _start(self, epoch: str, marker: int) -> None:
        self.epoch = epoch
        self._received = self._acknowledged = self._acknowledgement_sent = self.durable = marker
        self._untaken = None
        self._head = marker

    def _take_in(self, frame: ResultsFrame[Any]) -> bool:
        """Whether all of it was taken."""
        inline = frame.ref is UNSET
        for result in frame.results:
            position = result.position
            if position <= self._received:
                continue  # seen before
            if inline and self.buffered >= self._prefetch:
                return False  # inline, and no room for the rest: it will be asked for
            if position > self._received + 1 and not self._has_holes:
                self._lose(self._received + 1, position - 1, "missing in the answer")
            self._received = position
            lost = decode_gap(result.value)
            if lost is not None:
                self._untaken = self._untaken or set()
                self._untaken.add(position)
                self._lose(position, position, lost.cause, lost)
                continue
            gap, self._gap = self._gap, None
            taken = Result(
                result.value, position, result.at, self.channel, self.epoch, gap, self.subscription
            )
            if self._buffer is None:
                self._buffer = deque((taken,))
            else:
                self._buffer.append(taken)
        return True

    def _lose(
        self, first: int, last: int | None, reason: str, records: LostRecords | None = None
    ) -> None:
        gap = Gap(self.channel, first, last, reason, records)
        self._gaps = self._gaps or []
        self._gaps.append(gap)
        if self._gap is None:
            self._gap = gap
        else:  # two losses with nothing between them are told as one
            both = self._gap.last is not None and last is not None
            self._gap = Gap(gap.channel, self._gap.first, last if both else None, reason)
        if self.on_gap is not None:
            self.on_gap(gap)
